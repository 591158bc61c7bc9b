// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubeletapi serves the part of the kubelet API that kubectl exec, logs and port-forward use, to
// clients with a certificate.
package kubeletapi

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/logs"
	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/sandbox"
)

// ErrNotFound is the error for a Pod or container that is not on the node.
var ErrNotFound = errors.New("not found on this node")

// Pods are the Pods of a node.
type Pods interface {
	List() []corev1.Pod
	// Container returns a running container.
	Container(namespace, pod, container string) (*sandbox.Container, error)
	// Log returns the log of a container, or of its previous run.
	Log(namespace, pod, container string, previous bool) (*logs.Log, error)
	// Dial connects to a port of a Pod from inside its network namespace.
	Dial(ctx context.Context, namespace, pod string, port int32) (net.Conn, error)
}

// Config configures the server.
type Config struct {
	Port              int
	CertFile, KeyFile string
	// ClientCAFile has the certificate authorities of clients. All clients have full access.
	ClientCAFile string
}

// Serve serves until the context is done.
func Serve(ctx context.Context, config Config, pods Pods) error {
	settings, err := config.tls()
	if err != nil {
		return fmt.Errorf("kubelet API: %w", err)
	}
	listener, err := net.Listen("tcp", fmt.Sprintf(":%d", config.Port))
	if err != nil {
		return fmt.Errorf("kubelet API: %w", err)
	}
	server := &http.Server{
		Handler:     NewHandler(pods),
		TLSConfig:   settings,
		BaseContext: func(net.Listener) context.Context { return ctx },
		// Connections that are upgraded to streams require HTTP/1.1.
		TLSNextProto:      map[string]func(*http.Server, *tls.Conn, http.Handler){},
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          klog.NewStandardLogger("INFO"),
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	klog.FromContext(ctx).Info("Serving the kubelet API", "address", listener.Addr())
	if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("kubelet API: %w", err)
	}
	return nil
}

func (c Config) tls() (*tls.Config, error) {
	certificate, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
	if err != nil {
		return nil, err
	}
	authorities, err := os.ReadFile(c.ClientCAFile)
	if err != nil {
		return nil, err
	}
	clients := x509.NewCertPool()
	if !clients.AppendCertsFromPEM(authorities) {
		return nil, fmt.Errorf("%s contains no certificate", c.ClientCAFile)
	}
	return &tls.Config{Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients, MinVersion: tls.VersionTLS12}, nil
}

// NewHandler returns the handler without authentication.
func NewHandler(pods Pods) http.Handler {
	h := handler{pods: pods}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /pods", h.list)
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", h.logs)
	for _, place := range []string{"{namespace}/{pod}/{container}", "{namespace}/{pod}/{uid}/{container}"} {
		mux.HandleFunc("/exec/"+place, h.exec)
		mux.HandleFunc("POST /run/"+place, h.run)
		mux.HandleFunc("/attach/"+place, func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "the test node agent cannot attach: use exec or logs", http.StatusNotImplemented)
		})
	}
	mux.HandleFunc("/portForward/{namespace}/{pod}", h.portForward)
	mux.HandleFunc("/portForward/{namespace}/{pod}/{uid}", h.portForward)
	return mux
}

type handler struct{ pods Pods }

func (h handler) list(w http.ResponseWriter, _ *http.Request) {
	list := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: h.pods.List()}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(list)
}

// fail responds with an error.
func fail(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	if errors.Is(err, ErrNotFound) {
		code = http.StatusNotFound
	}
	http.Error(w, err.Error(), code)
}
