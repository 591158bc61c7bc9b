// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hostile has a member of a ClusterSet that says whatever a test wants: the
// API that other clusters read it by, over TLS, without a cluster behind it. Attacks
// returns what a member that was taken over might do.
package hostile

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"iter"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/pki"
)

// The resources that a member is read by.
const (
	Services = "exportedservices"
	Slices   = "exportedendpointslices"
	Claims   = "clusterclaims"
	Members  = "members"
)

// kinds are the kinds of the resources, with the group and version.
var kinds = map[string][2]string{
	Services: {"clusterset.mcs-apiserver.io/v1alpha1", "ExportedService"},
	Slices:   {"clusterset.mcs-apiserver.io/v1alpha1", "ExportedEndpointSlice"},
	Claims:   {"multicluster.k8s.io/v1", "ClusterClaim"},
	Members:  {"clusterset.mcs-apiserver.io/v1alpha1", "Member"},
}

// Behavior is how a member answers requests, by resource. For claims and members that
// are missing it answers as a member should, and other resources are empty.
type Behavior map[string]Resource

// Resource is how a member answers requests for one resource.
type Resource struct {
	// Objects are those in lists and at the beginning of streaming lists, in JSON.
	Objects iter.Seq[string]
	// Then returns the events of a watch after those, in JSON and numbered from 0: as
	// many per second as Rate, or as fast as they are read if Rate is 0.
	Then func(number int) string
	Rate int
	// NoStreaming refuses streaming lists, so that lists are requested.
	NoStreaming bool
	// Handler answers instead, if set.
	Handler http.HandlerFunc
}

// Config configures a Member.
type Config struct {
	// ID and ClusterSet are what the member claims, unless its behavior says otherwise.
	ID, ClusterSet string
	// Peers are the clusters that it lists.
	Peers []string
	// Behavior is how it answers.
	Behavior Behavior
	// Listener is where it listens, by default on this machine.
	Listener net.Listener
}

// Member is a running member.
type Member struct {
	config    Config
	server    *httptest.Server
	authority []byte

	mu sync.Mutex
	// sent are the numbers of objects and events that were sent, or of requests to a
	// Handler, by resource.
	sent map[string]int
	// bytes is how many bytes were sent, and open how many requests are being answered.
	bytes, open atomic.Int64
}

// Start starts a member. It must be closed.
func Start(config Config) (*Member, error) {
	m := &Member{config: config, sent: map[string]int{}}
	authority, err := pki.NewAuthority(config.ID)
	if err != nil {
		return nil, err
	}
	if config.Listener == nil {
		if config.Listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return nil, err
		}
	}
	pair, err := authority.Issue(pki.Subject{Name: config.ID, IPs: []net.IP{config.Listener.Addr().(*net.TCPAddr).IP}})
	if err != nil {
		return nil, err
	}
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return nil, err
	}
	m.authority = authority.Cert
	m.server = httptest.NewUnstartedServer(m)
	m.server.Listener.Close()
	m.server.Listener = countingListener{config.Listener, &m.bytes}
	m.server.EnableHTTP2 = true // as a kube-apiserver does
	m.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	m.server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	m.server.StartTLS()
	return m, nil
}

// Close ends all connections and stops the member.
func (m *Member) Close() {
	m.server.CloseClientConnections()
	m.server.Close()
}

// Secret returns the data of the member Secret, with additional or other keys.
func (m *Member) Secret(keys map[string]string) (map[string][]byte, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters[m.config.ID] = &clientcmdapi.Cluster{Server: m.server.URL, CertificateAuthorityData: m.authority}
	config.AuthInfos["peer"] = &clientcmdapi.AuthInfo{Token: m.config.token()}
	config.Contexts[m.config.ID] = &clientcmdapi.Context{Cluster: m.config.ID, AuthInfo: "peer"}
	config.CurrentContext = m.config.ID
	kubeconfig, err := clientcmd.Write(*config)
	if err != nil {
		return nil, err
	}
	data := map[string][]byte{clusterset.MemberSecretClusterID: []byte(m.config.ID), clusterset.MemberSecretKubeconfig: kubeconfig}
	for key, value := range keys {
		data[key] = []byte(value)
	}
	return data, nil
}

// Sent returns how many objects and events of a resource were sent, or how many
// requests its Handler answered.
func (m *Member) Sent(resource string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sent[resource]
}

// Bytes returns how many bytes were sent over all connections.
func (m *Member) Bytes() int64 { return m.bytes.Load() }

// Open returns how many requests are being answered.
func (m *Member) Open() int64 { return m.open.Load() }

// countingListener counts what is sent over its connections.
type countingListener struct {
	net.Listener
	bytes *atomic.Int64
}

// Accept implements net.Listener.
func (l countingListener) Accept() (net.Conn, error) {
	connection, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return countingConnection{connection, l.bytes}, nil
}

type countingConnection struct {
	net.Conn
	bytes *atomic.Int64
}

// Write implements net.Conn.
func (c countingConnection) Write(data []byte) (int, error) {
	n, err := c.Conn.Write(data)
	c.bytes.Add(int64(n))
	return n, err
}

// Begun reports whether anything was sent that the behavior is about.
func (m *Member) Begun() bool {
	for resource := range m.config.Behavior {
		if m.Sent(resource) > 0 {
			return true
		}
	}
	return false
}

func (m *Member) count(resource string, number int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sent[resource] += number
}

// resource returns how requests for a resource are answered.
func (m *Member) resource(name string) Resource {
	if given, ok := m.config.Behavior[name]; ok {
		return given
	}
	switch name {
	case Claims:
		return Resource{Objects: slices.Values(ClaimsOf(m.config.ID, m.config.ClusterSet))}
	case Members:
		return Resource{Objects: slices.Values([]string{Entry(m.config.ID, m.config.ClusterSet, m.config.Peers)})}
	}
	return Resource{}
}

// ServeHTTP implements http.Handler.
func (m *Member) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.open.Add(1)
	defer m.open.Add(-1)
	name, query := path.Base(r.URL.Path), r.URL.Query()
	given := m.resource(name)
	w.Header().Set("Content-Type", "application/json")
	switch streaming := query.Get("sendInitialEvents") == "true"; {
	case given.Handler != nil:
		m.count(name, 1)
		given.Handler(w, r)
	case query.Get("watch") == "":
		m.list(w, name, given)
	case streaming && given.NoStreaming:
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,"message":"sendInitialEvents is forbidden"}`)
	default:
		m.watch(r.Context(), w, name, given, streaming)
	}
}

func (m *Member) list(w io.Writer, name string, given Resource) {
	fmt.Fprintf(w, `{"apiVersion":%q,"kind":%q,"metadata":{"resourceVersion":"7"},"items":[`, kinds[name][0], kinds[name][1]+"List")
	separator := ""
	for object := range given.objects() {
		if _, err := io.WriteString(w, separator+object); err != nil {
			return
		}
		m.count(name, 1)
		separator = ","
	}
	_, _ = io.WriteString(w, "]}")
}

func (m *Member) watch(ctx context.Context, w http.ResponseWriter, name string, given Resource, streaming bool) {
	send := func(event string) bool {
		m.count(name, 1)
		_, err := io.WriteString(w, event+"\n")
		return err == nil && ctx.Err() == nil
	}
	if streaming {
		for object := range given.objects() {
			if !send(Event("ADDED", name, object)) {
				return
			}
		}
		_, _ = io.WriteString(w, Bookmark(name)+"\n")
	}
	w.(http.Flusher).Flush()
	if given.Then == nil {
		<-ctx.Done()
		return
	}
	follow(ctx, given, send, w.(http.Flusher).Flush)
}

// tick is how often the events that are due are sent.
const tick = 10 * time.Millisecond

// follow sends the events of a watch until it ends.
func follow(ctx context.Context, given Resource, send func(string) bool, flush func()) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	begun := time.Now()
	for number := 0; ; number++ {
		if given.Rate > 0 {
			for time.Since(begun) < time.Duration(number)*time.Second/time.Duration(given.Rate) {
				flush()
				select {
				case <-ctx.Done():
					return
				case <-ticker.C:
				}
			}
		}
		if !send(given.Then(number)) {
			return
		}
	}
}

func (r Resource) objects() iter.Seq[string] {
	if r.Objects == nil {
		return slices.Values([]string(nil))
	}
	return r.Objects
}

// Event returns an event of a watch. Objects of a list lack what an event needs to be
// decoded, which is added; text that is no object is passed on as it is.
func Event(kind, resource, object string) string {
	if rest, ok := strings.CutPrefix(object, "{"); ok && !strings.HasPrefix(object, `{"apiVersion"`) {
		object = fmt.Sprintf(`{"apiVersion":%q,"kind":%q,%s`, kinds[resource][0], kinds[resource][1], rest)
	}
	return fmt.Sprintf(`{"type":%q,"object":%s}`, kind, object)
}

// Bookmark returns the event that ends a streaming list.
func Bookmark(resource string) string {
	return fmt.Sprintf(`{"type":"BOOKMARK","object":{"apiVersion":%q,"kind":%q,"metadata":{"resourceVersion":"7","annotations":{"k8s.io/initial-events-end":"true"}}}}`,
		kinds[resource][0], kinds[resource][1])
}
