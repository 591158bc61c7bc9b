// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package generator

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// bookmarkInterval is how often watches get bookmarks, as from a kube-apiserver.
	bookmarkInterval = time.Minute
	defaultTimeout   = 30 * time.Minute
)

// stream is an open watch.
type stream struct {
	member   *Member
	resource string
	selected bool
	out      *bufio.Writer
	flush    func()
	// after is the version of the last event that was sent.
	after  uint64
	buffer []byte
}

// watch serves a watch until it ends. It returns an error only if nothing was written.
func (m *Member) watch(w http.ResponseWriter, r *http.Request, resource string, selected bool) error {
	query := r.URL.Query()
	timeout := defaultTimeout
	if seconds := query.Get("timeoutSeconds"); seconds != "" {
		number, err := strconv.Atoi(seconds)
		if err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
		timeout = time.Duration(number) * time.Second
	}
	opened := &stream{member: m, resource: resource, selected: selected, out: bufio.NewWriterSize(w, bufferSize), flush: w.(http.Flusher).Flush}
	streaming := query.Get("sendInitialEvents") == "true"
	requested := query.Get("resourceVersion")
	if !streaming && requested != "" && requested != "0" {
		version, err := strconv.ParseUint(requested, 10, 64)
		if err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
		if _, now, _, ok := m.state.since(eventsOf(resource), version); !ok || version > now {
			return apierrors.NewResourceExpired("resource version is unknown or expired")
		}
		opened.after = version
	} else {
		opened.begin(streaming)
	}
	opened.send(nil)
	var bookmarks <-chan time.Time
	if query.Get("allowWatchBookmarks") == "true" {
		ticker := time.NewTicker(bookmarkInterval)
		defer ticker.Stop()
		bookmarks = ticker.C
	}
	end := time.NewTimer(timeout)
	defer end.Stop()
	opened.follow(r.Context().Done(), end.C, bookmarks)
	return nil
}

// eventsOf returns the resource whose versions those of another one are: claims never change.
func eventsOf(resource string) string {
	if resource == claimsResource {
		return servicesResource
	}
	return resource
}

// begin sends all objects that there are, and says so if that was asked for.
func (w *stream) begin(streaming bool) {
	snapshot := w.member.state.snapshot()
	w.after = snapshot.version
	switch {
	case !w.selected:
	case w.resource == claimsResource:
		for _, claim := range w.member.claims() {
			w.write("ADDED", []byte(claim))
		}
	default:
		w.member.state.objects(w.resource, snapshot, 0, func(of Slice, now version) bool { return w.writeObject("ADDED", of, now) })
	}
	if streaming {
		w.bookmark(fmt.Sprintf(`,"annotations":{%q:"true"}`, metav1.InitialEventsAnnotationKey))
	}
}

// follow sends events until the client goes, the time is over, or events were missed.
func (w *stream) follow(gone <-chan struct{}, over, bookmarks <-chan time.Time) {
	for {
		events, now, more, ok := w.member.state.since(eventsOf(w.resource), w.after)
		if !ok {
			status := apierrors.NewResourceExpired("too many changes since").Status()
			status.APIVersion, status.Kind = "v1", "Status"
			encoded, _ := json.Marshal(status) // a Status can be encoded
			w.write("ERROR", encoded)
			w.send(nil)
			return
		}
		w.after = now
		if w.selected && w.resource != claimsResource && len(events) > 0 {
			for _, event := range events {
				w.writeObject(event.kind, event.of, event.now)
			}
			w.send(events)
		}
		select {
		case <-gone:
			return
		case <-over:
			return
		case <-bookmarks:
			w.bookmark("")
			w.send(nil)
		case <-more:
		}
	}
}

// send sends what was written, and notes when it was.
func (w *stream) send(events []event) {
	at := time.Now()
	_ = w.out.Flush() // the watch ends if the client is gone
	w.flush()
	for _, event := range events {
		if event.now.change != nil {
			event.now.change.sentAt(at)
		}
	}
}

func (w *stream) writeObject(kind string, of Slice, now version) bool {
	w.buffer = append(append(append(w.buffer[:0], `{"type":"`...), kind...), `","object":`...)
	w.buffer = append(w.member.state.appendObject(w.buffer, of, now), "}\n"...)
	_, err := w.out.Write(w.buffer)
	return err == nil
}

func (w *stream) write(kind string, object []byte) {
	fmt.Fprintf(w.out, "{\"type\":%q,\"object\":%s}\n", kind, object)
}

// bookmark writes a bookmark with more metadata.
func (w *stream) bookmark(metadata string) {
	kind := kinds[w.resource]
	w.write("BOOKMARK", fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"resourceVersion":"%d"%s}}`, kind.GroupVersion(), kind.Kind, w.after, metadata))
}
