// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// target returns a container with a port of this process.
func target(t *testing.T, address string) (Target, int) {
	t.Helper()
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return Target{Host: host, Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: int32(port)}}}, port
}

func TestHTTPGet(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.String() {
		case "/good?x=1":
			if r.Header.Get("X-Test") != "yes" || r.Host != "name.example" {
				http.Error(w, "bad headers", http.StatusBadRequest)
			}
		case "/moved":
			http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
		default:
			http.Error(w, "broken", http.StatusInternalServerError)
		}
	})
	headers := []corev1.HTTPHeader{{Name: "X-Test", Value: "yes"}, {Name: "host", Value: "name.example"}}
	for scheme, server := range map[corev1.URIScheme]*httptest.Server{
		corev1.URISchemeHTTP:  httptest.NewServer(handler),
		corev1.URISchemeHTTPS: httptest.NewTLSServer(handler),
	} {
		t.Cleanup(server.Close)
		location, err := url.Parse(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		container, port := target(t, location.Host)
		for path, want := range map[string]string{"/good?x=1": "", "/moved": "", "/bad": "broken"} {
			for _, port := range []intstr.IntOrString{intstr.FromInt32(int32(port)), intstr.FromString("web")} {
				probe := corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Scheme: scheme, Path: path, Port: port, HTTPHeaders: headers}}
				check(t, container, probe, want)
			}
		}
		check(t, container, corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromString("unknown")}}, "unknown")
	}
}

// check expects a probe to fail with a message, or to succeed if the message is empty.
func check(t *testing.T, container Target, handler corev1.ProbeHandler, want string) {
	t.Helper()
	err := container.Check(t.Context(), handler)
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("got %v, want %q", err, want)
	}
}

func TestTCP(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	container, _ := target(t, listener.Addr().String())
	probe := corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("web")}}
	check(t, container, probe, "")
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	check(t, container, probe, "refused")
}

func TestExec(t *testing.T) {
	container := Target{Exec: func(_ context.Context, args []string) (int, string, error) {
		code, err := strconv.Atoi(args[0])
		return code, "output\n", err
	}}
	for arg, want := range map[string]string{"0": "", "3": "exited with code 3: output", "x": "invalid"} {
		check(t, container, corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{arg}}}, want)
	}
	check(t, container, corev1.ProbeHandler{}, "no handler")
}

func TestGRPC(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, status := grpc.NewServer(), health.NewServer()
	healthpb.RegisterHealthServer(server, status)
	status.SetServingStatus("broken", healthpb.HealthCheckResponse_NOT_SERVING)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	container, port := target(t, listener.Addr().String())
	check(t, container, corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: int32(port)}}, "")
	check(t, container, corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: int32(port), Service: ptr.To("broken")}}, "NOT_SERVING")
}
