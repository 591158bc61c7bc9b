// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package probes runs the probes of containers.
package probes

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Target is a running container.
type Target struct {
	// Host is the address of the Pod.
	Host string
	// Ports are the named ports of the container.
	Ports []corev1.ContainerPort
	// Exec runs a command in the container.
	Exec func(ctx context.Context, args []string) (code int, output string, err error)
}

// Check runs a probe once. It returns nil if the probe succeeds.
func (t Target) Check(ctx context.Context, handler corev1.ProbeHandler) error {
	switch {
	case handler.Exec != nil:
		return t.exec(ctx, handler.Exec)
	case handler.HTTPGet != nil:
		return t.HTTPGet(ctx, handler.HTTPGet)
	case handler.TCPSocket != nil:
		return t.tcp(ctx, handler.TCPSocket)
	case handler.GRPC != nil:
		return t.grpc(ctx, handler.GRPC)
	}
	return errors.New("probe has no handler")
}

func (t Target) exec(ctx context.Context, action *corev1.ExecAction) error {
	code, output, err := t.Exec(ctx, action.Command)
	if err != nil {
		return err
	}
	if code != 0 {
		return fmt.Errorf("command exited with code %d: %s", code, strings.TrimSpace(output))
	}
	return nil
}

// HTTPGet sends a request. Certificates are not verified, and a redirect counts as success.
func (t Target) HTTPGet(ctx context.Context, action *corev1.HTTPGetAction) error {
	request, err := t.request(ctx, action)
	if err != nil {
		return err
	}
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	client := &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode < http.StatusOK || response.StatusCode >= http.StatusBadRequest {
		body, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10))
		return fmt.Errorf("%s answers %s: %s", request.URL, response.Status, strings.TrimSpace(string(body)))
	}
	return nil
}

func (t Target) request(ctx context.Context, action *corev1.HTTPGetAction) (*http.Request, error) {
	address, err := t.address(action.Host, action.Port)
	if err != nil {
		return nil, err
	}
	location, err := url.Parse(action.Path)
	if err != nil { // as in the kubelet
		location = &url.URL{Path: action.Path}
	}
	location.Scheme, location.Host = "http", address
	if action.Scheme == corev1.URISchemeHTTPS {
		location.Scheme = "https"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, location.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", "kube-probe/test")
	request.Header.Set("Accept", "*/*")
	for _, header := range action.HTTPHeaders {
		if http.CanonicalHeaderKey(header.Name) == "Host" {
			request.Host = header.Value
			continue
		}
		request.Header.Add(header.Name, header.Value)
	}
	return request, nil
}

func (t Target) tcp(ctx context.Context, action *corev1.TCPSocketAction) error {
	address, err := t.address(action.Host, action.Port)
	if err != nil {
		return err
	}
	connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return connection.Close()
}

func (t Target) grpc(ctx context.Context, action *corev1.GRPCAction) error {
	address := net.JoinHostPort(t.Host, strconv.Itoa(int(action.Port)))
	connection, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close() }()
	request := &healthpb.HealthCheckRequest{}
	if action.Service != nil {
		request.Service = *action.Service
	}
	answer, err := healthpb.NewHealthClient(connection).Check(ctx, request)
	if err != nil {
		return err
	}
	if answer.Status != healthpb.HealthCheckResponse_SERVING {
		return fmt.Errorf("%s answers %s", address, answer.Status)
	}
	return nil
}

// address returns the address to connect to. A port may be a name.
func (t Target) address(host string, port intstr.IntOrString) (string, error) {
	if host == "" {
		host = t.Host
	}
	if port.Type == intstr.Int {
		return net.JoinHostPort(host, strconv.Itoa(port.IntValue())), nil
	}
	for _, named := range t.Ports {
		if named.Name == port.StrVal {
			return net.JoinHostPort(host, strconv.Itoa(int(named.ContainerPort))), nil
		}
	}
	if number, err := strconv.Atoi(port.StrVal); err == nil {
		return net.JoinHostPort(host, strconv.Itoa(number)), nil
	}
	return "", fmt.Errorf("container has no port named %q", port.StrVal)
}
