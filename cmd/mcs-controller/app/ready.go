// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/sets"
)

// maxReason limits what is read of the response of an unready server.
const maxReason = 4 << 10

// readiness probes whether the mcs-apiserver in the same Pod is ready, and whether the
// caches of this process follow it.
type readiness struct {
	url    string
	client *http.Client
	// watches are those of the caches.
	watches *openWatches
}

// newReadiness returns a probe of a server. Its connections do not wait for a server that
// does not listen, unlike those of the caches.
func newReadiness(server, serverName string, trust *authority, watches *openWatches) *readiness {
	return &readiness{
		url:     strings.TrimSuffix(server, "/") + "/readyz",
		client:  &http.Client{Transport: ownTransport(serverName, trust, (&net.Dialer{}).DialContext)},
		watches: watches,
	}
}

// probe returns why the server is not ready, or the caches do not follow it.
func (r *readiness) probe(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url, nil)
	if err != nil {
		return err
	}
	response, err := r.client.Do(request)
	if err != nil {
		return fmt.Errorf("mcs-apiserver is not reachable: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		reason, _ := io.ReadAll(io.LimitReader(response.Body, maxReason))
		return fmt.Errorf("mcs-apiserver is not ready: %s: %s", response.Status, strings.TrimSpace(string(reason)))
	}
	if interrupted := r.watches.interrupted(); len(interrupted) > 0 {
		return fmt.Errorf("caches do not follow mcs-apiserver: no watch of %s", strings.Join(interrupted, ", "))
	}
	return nil
}

// computedResources are those that a leader has to watch. mcs-apiserver does not serve stored
// ones while storage is lost, or while one of their objects cannot be decoded, in no replica:
// nobody would follow the other clusters then. A cache of stored objects may be outdated: they
// are written by their resourceVersion, and their addresses are in ExportedServices as well.
var computedResources = sets.New("serviceimports", "exportedservices", "exportedendpointslices", "members")

// openWatches counts the open watches of a client, by path. Informers do not show
// whether they are connected, and reconnect with a delay: a leader whose server is
// ready again could act on what its caches contained before.
type openWatches struct {
	mu     sync.Mutex
	byPath map[string]int
}

func newOpenWatches() *openWatches { return &openWatches{byPath: map[string]int{}} }

// interrupted returns the paths of computed resources that were watched before and are not
// watched now.
func (o *openWatches) interrupted() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var paths []string
	for watched, open := range o.byPath {
		if open == 0 && computedResources.Has(path.Base(watched)) {
			paths = append(paths, watched)
		}
	}
	slices.Sort(paths)
	return paths
}

func (o *openWatches) add(path string, difference int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.byPath[path] += difference
}

// wrap returns a transport that counts watches.
func (o *openWatches) wrap(transport http.RoundTripper) http.RoundTripper {
	return &countingTransport{transport, o}
}

type countingTransport struct {
	http.RoundTripper
	watches *openWatches
}

var _ utilnet.RoundTripperWrapper = &countingTransport{}

// WrappedRoundTripper implements utilnet.RoundTripperWrapper.
func (t *countingTransport) WrappedRoundTripper() http.RoundTripper { return t.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t *countingTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.RoundTripper.RoundTrip(request)
	if err != nil || response.StatusCode != http.StatusOK {
		return response, err
	}
	if watching, _ := strconv.ParseBool(request.URL.Query().Get("watch")); watching {
		watched := request.URL.Path
		t.watches.add(watched, 1)
		response.Body = &watchBody{ReadCloser: response.Body, closed: sync.OnceFunc(func() { t.watches.add(watched, -1) })}
	}
	return response, nil
}

// watchBody is the body of a response that ends when it is closed.
type watchBody struct {
	io.ReadCloser
	closed func()
}

// Close implements io.Closer.
func (b *watchBody) Close() error {
	b.closed()
	return b.ReadCloser.Close()
}
