// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package podresolver

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/dns/dnsmessage"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/streaming/pkg/httpstream"
)

// serve answers one query over a connection.
func serve(t *testing.T, connection net.Conn, respond func(query dnsmessage.Message) []byte) {
	t.Helper()
	defer connection.Close()
	var length uint16
	if err := binary.Read(connection, binary.BigEndian, &length); err != nil {
		t.Error(err)
		return
	}
	packed := make([]byte, length)
	if _, err := io.ReadFull(connection, packed); err != nil {
		t.Error(err)
		return
	}
	var query dnsmessage.Message
	if err := query.Unpack(packed); err != nil {
		t.Error(err)
	}
	response := respond(query)
	_ = binary.Write(connection, binary.BigEndian, uint16(len(response)))
	_, _ = connection.Write(response)
}

// R383
func TestExchange(t *testing.T) {
	answer := func(query dnsmessage.Message) []byte {
		header := dnsmessage.ResourceHeader{Name: query.Questions[0].Name, Class: dnsmessage.ClassINET}
		query.Response, query.RCode = true, dnsmessage.RCodeNameError
		query.Answers = []dnsmessage.Resource{
			{Header: header, Body: &dnsmessage.AAAAResource{AAAA: [16]byte{0: 0xfd, 15: 1}}},
			{Header: header, Body: &dnsmessage.AResource{A: [4]byte{10, 0, 0, 7}}},
			{Header: header, Body: &dnsmessage.TXTResource{TXT: []string{"1.1", ".0"}}},
		}
		packed, err := query.Pack()
		if err != nil || query.Questions[0].Name.String() != "web.shop.svc.clusterset.local." {
			t.Errorf("%v: %v", query.Questions, err)
		}
		return packed
	}
	for name, test := range map[string]struct {
		respond func(dnsmessage.Message) []byte
		want    Answer
		fails   bool
	}{
		"answer":  {answer, Answer{Code: dnsmessage.RCodeNameError, Data: []string{"1.1.0", "10.0.0.7", "fd00::1"}}, false},
		"invalid": {func(dnsmessage.Message) []byte { return []byte("x") }, Answer{}, true},
		"empty":   {func(dnsmessage.Message) []byte { return nil }, Answer{}, true},
	} {
		client, server := net.Pipe()
		go serve(t, server, test.respond)
		got, err := exchange(client, "web.shop.svc.clusterset.local", dnsmessage.TypeA)
		if diff := cmp.Diff(test.want, got); diff != "" || (err != nil) != test.fails {
			t.Errorf("%s: unexpected answer (%v, -want +got):\n%s", name, err, diff)
		}
		client.Close()
	}
}

// connection is a connection to a Pod whose port answers, or refuses with a reason.
type connection struct {
	httpstream.Connection
	reason string
	serve  func(net.Conn)

	closed    sync.Once
	closeChan chan struct{}
}

type stream struct{ net.Conn }

func (stream) Reset() error         { return nil }
func (stream) Headers() http.Header { return nil }
func (stream) Identifier() uint32   { return 0 }

// errorStream is read only: its client closes the other direction.
type errorStream struct{ stream }

func (errorStream) Close() error { return nil }

func (c *connection) CreateStream(headers http.Header) (httpstream.Stream, error) {
	local, remote := net.Pipe()
	go func() {
		<-c.closeChan
		local.Close()
		remote.Close()
	}()
	if headers.Get(corev1.StreamType) == corev1.StreamTypeError {
		go func() {
			if c.reason != "" {
				_, _ = io.WriteString(remote, c.reason)
				remote.Close()
			}
		}()
		return errorStream{stream{local}}, nil
	}
	if c.reason != "" {
		remote.Close()
	} else {
		go c.serve(remote)
	}
	return stream{local}, nil
}

func (c *connection) Close() error {
	c.closed.Do(func() { close(c.closeChan) })
	return nil
}

func newResolver(c *connection) *Resolver {
	c.closeChan = make(chan struct{})
	return &Resolver{dial: func(string, string) (httpstream.Connection, error) { return c, nil }}
}

// R405: the reason why a port cannot be reached is reported.
func TestReasonOfFailure(t *testing.T) {
	const reason = "error forwarding port 53 to pod x: connect: connection refused"
	_, err := newResolver(&connection{reason: reason}).Ask(t.Context(), "kube-system", "coredns-1", "53", "a.example", dnsmessage.TypeA)
	if err == nil || !strings.Contains(err.Error(), reason) || !strings.Contains(err.Error(), "Pod kube-system/coredns-1 on port 53") {
		t.Errorf("got %v", err)
	}
}

// R405: neither a node that does not answer nor a Pod that does not is waited for longer
// than intended.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, late := make(chan struct{}), &connection{closeChan: make(chan struct{})}
		silent := &connection{serve: func(net.Conn) {}}
		for name, resolver := range map[string]*Resolver{
			"node": {dial: func(string, string) (httpstream.Connection, error) { <-release; return late, nil }},
			"Pod":  newResolver(silent),
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			started := time.Now()
			_, err := resolver.Ask(ctx, "a", "b", "53", "a.example", dnsmessage.TypeA)
			if took := time.Since(started); !errors.Is(err, context.DeadlineExceeded) || took != time.Second {
				t.Errorf("%s: got %v after %s", name, err, took)
			}
			cancel()
		}
		close(release)
		<-late.closeChan
		<-silent.closeChan
	})
}

// R381
func TestGet(t *testing.T) {
	for status, fails := range map[string]bool{"200 OK": false, "404 Not Found": true} {
		c := &connection{serve: func(server net.Conn) {
			request, err := http.ReadRequest(bufio.NewReader(server))
			if err != nil || request.URL.Path != "/metrics" {
				t.Errorf("got %v, %v", request, err)
			}
			_, _ = io.WriteString(server, "HTTP/1.1 "+status+"\r\nContent-Length: 4\r\n\r\na 1\n")
		}}
		body, err := newResolver(c).Get(t.Context(), "kube-system", "coredns-1", "9153", "/metrics")
		if (err != nil) != fails || err == nil && string(body) != "a 1\n" {
			t.Errorf("%s: got %q, %v", status, body, err)
		}
	}
}
