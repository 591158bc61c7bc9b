// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podresolver sends DNS queries and HTTP requests to single Pods through the
// Kubernetes API.
//
// Only TCP can be forwarded; DNS servers answer it like UDP.
package podresolver

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// Answer is the answer to a query.
type Answer struct {
	// Code is the response code.
	Code dnsmessage.RCode
	// Data are addresses and texts, sorted.
	Data []string
}

// Resolver sends queries to Pods of a cluster.
type Resolver struct {
	Config *rest.Config
	Client kubernetes.Interface

	// dial replaces connections through the Kubernetes API in tests.
	dial func(namespace, pod string) (httpstream.Connection, error)
}

// Ask sends a query to a port of a Pod.
func (r *Resolver) Ask(ctx context.Context, namespace, pod, port, name string, kind dnsmessage.Type) (Answer, error) {
	var answer Answer
	err := r.connect(ctx, namespace, pod, port, func(stream io.ReadWriter) (err error) {
		answer, err = exchange(stream, name, kind)
		return err
	})
	if err != nil {
		return Answer{}, fmt.Errorf("ask Pod %s/%s on port %s for %s: %w", namespace, pod, port, name, err)
	}
	return answer, nil
}

// Get returns the response of a Pod to an HTTP request.
func (r *Resolver) Get(ctx context.Context, namespace, pod, port, path string) ([]byte, error) {
	var body []byte
	err := r.connect(ctx, namespace, pod, port, func(stream io.ReadWriter) (err error) {
		body, err = get(stream, path)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("get %s from Pod %s/%s on port %s: %w", path, namespace, pod, port, err)
	}
	return body, nil
}

// connect connects to a port of a Pod, until the context ends.
func (r *Resolver) connect(ctx context.Context, namespace, pod, port string, use func(io.ReadWriter) error) error {
	dial := r.dial
	if dial == nil {
		dial = r.dialPod
	}
	type dialed struct {
		connection httpstream.Connection
		err        error
	}
	done := make(chan dialed, 1)
	// Dialing does not know contexts. What is dialed too late is closed.
	go func() {
		connection, err := dial(namespace, pod)
		done <- dialed{connection, err}
		if err == nil && ctx.Err() != nil {
			_ = connection.Close()
		}
	}()
	var connection httpstream.Connection
	select {
	case <-ctx.Done():
		return ctx.Err()
	case d := <-done:
		if d.err != nil {
			return d.err
		}
		connection = d.connection
	}
	defer func() { _ = connection.Close() }()
	// Nor do streams.
	defer context.AfterFunc(ctx, func() { _ = connection.Close() })()
	err := forward(ctx, connection, port, use)
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// dialPod connects to a Pod as kubectl port-forward does: with a WebSocket if the server
// supports it.
func (r *Resolver) dialPod(namespace, pod string) (httpstream.Connection, error) {
	target := r.Client.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(pod).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(r.Config)
	if err != nil {
		return nil, err
	}
	dialer := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, target)
	tunnel, err := portforward.NewSPDYOverWebsocketDialerForStreaming(target, r.Config)
	if err != nil {
		return nil, err
	}
	connection, _, err := portforward.NewFallbackDialerForStreaming(tunnel, dialer, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}).Dial(portforward.PortForwardProtocolV1Name)
	return connection, err
}

// reasonDelay is how long the reason of an error may take to arrive after the error.
const reasonDelay = time.Second

// forward opens a stream to a port, and uses it.
func forward(ctx context.Context, connection httpstream.Connection, port string, use func(io.ReadWriter) error) error {
	headers := http.Header{}
	headers.Set(corev1.PortHeader, port)
	headers.Set(corev1.PortForwardRequestIDHeader, "0")
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	failures, err := connection.CreateStream(headers)
	if err != nil {
		return err
	}
	_ = failures.Close() // nothing is written to it
	reason := make(chan string, 1)
	go func() { // until the connection is closed
		message, _ := io.ReadAll(failures)
		reason <- strings.TrimSpace(string(message))
	}()
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := connection.CreateStream(headers)
	if err != nil {
		return err
	}
	if err = use(data); err == nil {
		return nil
	}
	select {
	case message := <-reason:
		if message != "" {
			return errors.New(message)
		}
	case <-ctx.Done():
	case <-time.After(reasonDelay):
	}
	return err
}

// maxBody limits how much is read of an HTTP response.
const maxBody = 8 << 20

// get sends an HTTP request over a TCP connection, and returns the response.
func get(connection io.ReadWriter, path string) ([]byte, error) {
	request := &http.Request{Method: http.MethodGet, URL: &url.URL{Path: path}, Host: "localhost", Close: true}
	if err := request.Write(connection); err != nil {
		return nil, err
	}
	response, err := http.ReadResponse(bufio.NewReader(connection), request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("unexpected status %s", response.Status)
	}
	return io.ReadAll(io.LimitReader(response.Body, maxBody))
}

// exchange sends a query over a TCP connection, and returns the answer.
func exchange(connection io.ReadWriter, name string, kind dnsmessage.Type) (Answer, error) {
	full, err := dnsmessage.NewName(strings.TrimSuffix(name, ".") + ".")
	if err != nil {
		return Answer{}, err
	}
	query := dnsmessage.Message{Header: dnsmessage.Header{ID: 1, RecursionDesired: true}, Questions: []dnsmessage.Question{{Name: full, Type: kind, Class: dnsmessage.ClassINET}}}
	packed, err := query.AppendPack(make([]byte, 2))
	if err != nil {
		return Answer{}, err
	}
	binary.BigEndian.PutUint16(packed, uint16(len(packed)-2)) //nolint:gosec // a name has 255 bytes at most
	if _, err := connection.Write(packed); err != nil {
		return Answer{}, err
	}
	var length uint16
	if err := binary.Read(connection, binary.BigEndian, &length); err != nil {
		return Answer{}, err
	}
	response := make([]byte, length)
	if _, err := io.ReadFull(connection, response); err != nil {
		return Answer{}, err
	}
	return parse(response)
}

func parse(response []byte) (Answer, error) {
	var message dnsmessage.Message
	if err := message.Unpack(response); err != nil {
		return Answer{}, fmt.Errorf("invalid DNS response: %w", err)
	}
	answer := Answer{Code: message.RCode}
	for i := range message.Answers {
		switch body := message.Answers[i].Body.(type) {
		case *dnsmessage.AResource:
			answer.Data = append(answer.Data, netip.AddrFrom4(body.A).String())
		case *dnsmessage.AAAAResource:
			answer.Data = append(answer.Data, netip.AddrFrom16(body.AAAA).String())
		case *dnsmessage.TXTResource:
			answer.Data = append(answer.Data, strings.Join(body.TXT, ""))
		}
	}
	slices.Sort(answer.Data)
	return answer, nil
}
