// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// connectionAttacks are about how responses are sent, not about what they contain.
func connectionAttacks() []Attack {
	both := func(handler http.HandlerFunc) Behavior {
		return Behavior{Services: {Handler: handler}, Slices: {Handler: handler}}
	}
	return []Attack{
		{
			Name: "compressed-bomb", Reported: unsynced("Unreachable", "response is compressed"),
			Behavior: func(Target) Behavior { return both(bomb) },
		},
		{
			Name: "compressed-bomb-everywhere", Reported: &Report{"Reachable", "Unreachable", []string{"response is compressed"}},
			Behavior: func(Target) Behavior {
				return Behavior{Services: {Handler: bomb}, Slices: {Handler: bomb}, Claims: {Handler: bomb}, Members: {Handler: bomb}}
			},
		},
		{
			Name: "endless-list", Reported: unsynced("ResponseTooLarge", "response is larger than the limit"),
			Behavior: func(target Target) Behavior {
				endless := target.services(1 << 40)
				endless.NoStreaming = true
				// What is complete would be too much already.
				endless.Objects = repeated(target.service(0) + strings.Repeat(" ", 4096))
				return Behavior{Services: endless}
			},
		},
		{
			Name: "endless-event", Reported: unsynced("ResponseTooLarge", "larger than the limit"),
			Behavior: func(Target) Behavior {
				return Behavior{Slices: {Handler: func(w http.ResponseWriter, r *http.Request) {
					write(w, r, `{"type":"ADDED","object":{"metadata":{"name":"`)
					for write(w, r, strings.Repeat("x", 64<<10)) {
					}
				}}}
			},
		},
		{
			Name: "slow-stream",
			Behavior: func(target Target) Behavior {
				return both(func(w http.ResponseWriter, r *http.Request) {
					for _, character := range []byte(Event("ADDED", Services, target.service(0))) {
						if !write(w, r, string(character)) || !pause(r, 100*time.Millisecond) {
							return
						}
					}
				})
			},
		},
		{
			Name: "stalled-stream",
			Behavior: func(target Target) Behavior {
				return both(func(w http.ResponseWriter, r *http.Request) {
					write(w, r, Event("ADDED", Services, target.service(0))[:100])
					<-r.Context().Done()
				})
			},
		},
		{
			Name: "silence", Reported: &Report{"Reachable", "Unreachable", nil},
			Behavior: func(Target) Behavior {
				silent := Resource{Handler: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }}
				return Behavior{Services: silent, Slices: silent, Claims: silent, Members: silent}
			},
		},
		{
			Name: "broken-connections", Reported: unsynced("Unreachable"),
			Behavior: func(Target) Behavior {
				return both(func(w http.ResponseWriter, r *http.Request) {
					write(w, r, `{"type":"ADDED","object":`)
					panic(http.ErrAbortHandler)
				})
			},
		},
		{
			Name: "continue-loop", Sent: 2, Reported: unsynced("TooManyExports"),
			Behavior: func(target Target) Behavior { return Behavior{Services: {Handler: pages(target.service(0))}} },
		},
		{
			Name: "continue-loop-of-empty-pages", Sent: 2, Reported: unsynced("TooManyExports"),
			Behavior: func(Target) Behavior { return Behavior{Slices: {Handler: pages("")}} },
		},
		{
			Name: "redirect", Reported: unsynced("Unreachable", "is a redirect to"),
			Behavior: func(target Target) Behavior {
				return both(func(w http.ResponseWriter, r *http.Request) {
					http.Redirect(w, r, target.Elsewhere+r.URL.RequestURI(), http.StatusTemporaryRedirect)
				})
			},
		},
		{
			Name: "expired-forever", Sent: 2,
			Behavior: func(Target) Behavior {
				return both(func(w http.ResponseWriter, r *http.Request) {
					write(w, r, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}}`)
				})
			},
		},
		{
			Name: "long-errors", Reported: unsynced("ResponseTooLarge"),
			Behavior: func(Target) Behavior {
				return both(func(w http.ResponseWriter, r *http.Request) {
					w.WriteHeader(http.StatusInternalServerError)
					write(w, r, fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":500,"message":%q}`, strings.Repeat("lies ", 600<<10)))
				})
			},
		},
		{
			Name: "long-error-events", Reported: unsynced("Unavailable"),
			Behavior: func(Target) Behavior {
				return both(func(w http.ResponseWriter, r *http.Request) {
					write(w, r, fmt.Sprintf(`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","code":500,"message":%q}}`, strings.Repeat("lies ", 600<<10)))
				})
			},
		},
		{
			// Errors that end a watch are logged.
			Name: "long-error-events-after-a-list", Sent: 2,
			Behavior: func(Target) Behavior {
				text := strings.Repeat("lies ", 600<<10)
				failing := func(resource string) Resource {
					return Resource{Handler: func(w http.ResponseWriter, r *http.Request) {
						write(w, r, Bookmark(resource))
						write(w, r, fmt.Sprintf(`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","code":500,"message":%q}}`, text))
					}}
				}
				return Behavior{Services: failing(Services), Slices: failing(Slices)}
			},
		},
		{
			Name: "warnings",
			Behavior: func(Target) Behavior {
				return both(func(w http.ResponseWriter, r *http.Request) {
					for range 1000 {
						w.Header().Add("Warning", `299 - "`+strings.Repeat("lies ", 100)+`"`)
					}
					w.WriteHeader(http.StatusGone)
				})
			},
		},
		{
			Name: "never-before-next-week", Sent: 2, Reported: unsynced("Refused"),
			Behavior: func(Target) Behavior {
				return both(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Retry-After", "604800")
					w.WriteHeader(http.StatusTooManyRequests)
				})
			},
		},
	}
}

// write sends text at once, and reports whether the client is still there.
func write(w http.ResponseWriter, r *http.Request, text string) bool {
	_, err := io.WriteString(w, text)
	if err == nil {
		w.(http.Flusher).Flush()
	}
	return err == nil && r.Context().Err() == nil
}

// pause waits, and reports whether the client is still there.
func pause(r *http.Request, duration time.Duration) bool {
	select {
	case <-r.Context().Done():
		return false
	case <-time.After(duration):
		return true
	}
}

func repeated(object string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for yield(object) {
		}
	}
}

// bombSize is how large the response of bomb is once it is decompressed.
const bombSize = 512 << 20

// compressed is a list whose only item has a name of bombSize spaces.
var compressed = sync.OnceValue(func() []byte {
	var buffer bytes.Buffer
	w, _ := gzip.NewWriterLevel(&buffer, gzip.BestSpeed)
	_, _ = io.WriteString(w, `{"metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"`)
	block := bytes.Repeat([]byte(" "), 1<<20)
	for range bombSize >> 20 {
		_, _ = w.Write(block)
	}
	_, _ = io.WriteString(w, `"}}]}`)
	_ = w.Close()
	return buffer.Bytes()
})

// bomb answers with a small response that is large once it is decompressed.
func bomb(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Encoding", "gzip")
	_, _ = w.Write(compressed())
}

// pages answers with pages of a list that never ends, and refuses everything else.
func pages(object string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") != "" {
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		fmt.Fprintf(w, `{"metadata":{"resourceVersion":"7","continue":"again"},"items":[%s]}`, object)
	}
}
