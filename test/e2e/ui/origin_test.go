// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// R583: what another program at the same port left behind in the browser does not get the page: a service
// worker that answers every request itself.
func TestPageIsNotThatOfAnEarlierProgram(t *testing.T) {
	listener := expect.Must(net.Listen("tcp4", "127.0.0.1:0"))(t)
	earlier := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/worker.js" {
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = fmt.Fprint(w, `self.addEventListener("install", () => self.skipWaiting());
				self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
				self.addEventListener("fetch", (event) => event.respondWith(new Response("hijacked", { headers: { "Content-Type": "text/html" } })));`)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprint(w, `<script>navigator.serviceWorker.register("/worker.js")</script>`)
	})}
	go func() { _ = earlier.Serve(listener) }() // until it is closed
	base := "http://" + listener.Addr().String()
	b := start(t)
	b.do(chromedp.Navigate(base + "/"))
	b.await("the worker", `navigator.serviceWorker.controller !== null`)
	expect.NoError(t, earlier.Close())
	b.do(chromedp.Navigate(base + "/"))
	b.awaitText("body", "hijacked")

	_, port, err := net.SplitHostPort(listener.Addr().String())
	expect.NoError(t, err)
	s := serve(t, "", "--context", "east", "--port", port)
	b.open(s)
	b.awaitText("#title", "ClusterSet production, as cluster east sees it")
	if read[bool](b, `navigator.serviceWorker.controller !== null`) {
		t.Error("the page is controlled by a service worker")
	}
}

// R583: another program that listens at the port after the command has ended is not believed, and does not
// receive the token.
func TestPageDoesNotBelieveALaterProgram(t *testing.T) {
	s := serve(t, "", "--context", "east")
	b := start(t)
	b.open(s)
	s.interrupt(t)
	b.awaitText("#connection", "Disconnected")
	address := expect.Must(url.Parse(s.base))(t)
	var received atomic.Int32
	later := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			received.Add(1)
		}
		fmt.Fprintln(w, `{"kind": "hello", "proof": "00"}`)
		fmt.Fprintln(w, `{"kind": "cluster", "key": "forged", "value": {"name": "forged"}}`)
		fmt.Fprintln(w, `{"kind": "snapshot"}`)
	})}
	for _, ip := range []string{"127.0.0.1", "::1"} {
		listener, err := net.Listen("tcp", net.JoinHostPort(ip, address.Port()))
		if err != nil && ip == "::1" {
			continue // a machine without IPv6
		}
		expect.NoError(t, err)
		go func() { _ = later.Serve(listener) }() // until it is closed
	}
	t.Cleanup(func() { _ = later.Close() })
	b.awaitText("#connection", "No access: what answers is not the command that printed the URL")
	if received.Load() > 0 {
		t.Error("the other program received the token")
	}
	b.await("what was shown before", `document.querySelectorAll("#cluster-table tbody tr").length === 3`)
}
