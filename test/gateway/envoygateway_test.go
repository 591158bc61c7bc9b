// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/netns"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/process"
)

// system is the namespace of Envoy Gateway, by its documentation.
const system = "envoy-gateway-system"

// envoyGateway is the control plane in west, and proxyTLS what its proxies authenticate with.
var envoyGateway struct {
	once     sync.Once
	err      error
	proxyTLS *tls.Config
}

// startEnvoyGateway installs Envoy Gateway in west by its Helm chart, and runs its control plane
// with the configuration and the permissions that it has by that. It does so once for all tests.
func startEnvoyGateway(t *testing.T) *tls.Config {
	t.Helper()
	envoyGateway.once.Do(func() { envoyGateway.err = runEnvoyGateway(t) })
	expect.NoError(t, envoyGateway.err)
	expect.Eventually(t, "readiness of Envoy Gateway", func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+netns.Address+":8081/readyz", nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		if response.StatusCode != http.StatusOK {
			return errors.New(response.Status)
		}
		return nil
	})
	return envoyGateway.proxyTLS
}

// runEnvoyGateway runs the control plane in a root directory of its own, because the paths of
// its certificates cannot be configured.
func runEnvoyGateway(t *testing.T) error {
	bin := filepath.Join(west().Root, "bin", "test")
	root := filepath.Join(west().Dir, "envoy-gateway")
	if err := os.MkdirAll(filepath.Join(root, "certs"), 0o755); err != nil {
		return err
	}
	if err := localcluster.LinkOrCopy(filepath.Join(bin, "envoy-gateway"), filepath.Join(root, "envoy-gateway")); err != nil {
		return fmt.Errorf("program of Envoy Gateway, which `make envoy-gateway` builds: %w", err)
	}
	manifest, err := render(t.Context(), filepath.Join(bin, "helm"))
	if err != nil {
		return err
	}
	file := filepath.Join(root, "manifest.yaml")
	if err := os.WriteFile(file, manifest, 0o600); err != nil {
		return err
	}
	if err := west().Namespace(t.Context(), system); err != nil {
		return err
	}
	if err := runKubectl(t.Context(), "apply", "--server-side", "-f", file); err != nil {
		return err
	}
	certgen := exec.CommandContext(t.Context(), filepath.Join(root, "envoy-gateway"), "certgen", "--disable-topology-injector")
	certgen.Env = []string{"KUBECONFIG=" + west().Plane.AdminKubeconfig(), "ENVOY_GATEWAY_NAMESPACE=" + system}
	if output, err := certgen.CombinedOutput(); err != nil {
		return fmt.Errorf("create certificates: %w: %s", err, output)
	}
	if err := errors.Join(writeFiles(t.Context(), root), writeKubeconfig(t.Context(), filepath.Join(root, "kubeconfig"))); err != nil {
		return err
	}
	_, err = process.Start(process.Command{
		Name: "envoy-gateway", Path: "/usr/sbin/chroot", Args: []string{root, "/envoy-gateway", "server", "--config-path=/envoy-gateway.yaml"},
		Env: []string{"KUBECONFIG=/kubeconfig", "ENVOY_GATEWAY_NAMESPACE=" + system}, Log: filepath.Join(west().Dir, "envoy-gateway.log"),
	})
	return err
}

// render renders the Helm chart of Envoy Gateway.
func render(ctx context.Context, helm string) ([]byte, error) {
	output, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/envoyproxy/gateway").Output()
	if err != nil {
		return nil, fmt.Errorf("find the chart of Envoy Gateway: %w", err)
	}
	chart := filepath.Join(strings.TrimSpace(string(output)), "charts", "gateway-helm")
	cmd := exec.CommandContext(ctx, helm, "template", "eg", chart, "--namespace", system, "--include-crds", "--no-hooks",
		"--values", filepath.Join(chart, "values.tmpl.yaml"), // the chart of a release has an image in it
		"--set", "global.images.envoyGateway.image=envoyproxy/gateway:latest,global.images.envoyGateway.pullPolicy=IfNotPresent,topologyInjector.enabled=false")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	manifest, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("render the chart of Envoy Gateway: %w: %s", err, &stderr)
	}
	return manifest, nil
}

// writeFiles writes the files that the control plane reads: what Pods of its Deployment mount.
func writeFiles(ctx context.Context, root string) error {
	client := west().Kubernetes.CoreV1()
	config, err := client.ConfigMaps(system).Get(ctx, "envoy-gateway-config", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, "envoy-gateway.yaml"), []byte(config.Data["envoy-gateway.yaml"]), 0o600); err != nil {
		return err
	}
	server, err := client.Secrets(system).Get(ctx, "envoy-gateway", metav1.GetOptions{})
	if err != nil {
		return err
	}
	for name, data := range server.Data {
		if err := os.WriteFile(filepath.Join(root, "certs", name), data, 0o600); err != nil {
			return err
		}
	}
	proxy, err := client.Secrets(system).Get(ctx, "envoy", metav1.GetOptions{})
	if err != nil {
		return err
	}
	envoyGateway.proxyTLS, err = tlsConfig(proxy)
	return err
}

func tlsConfig(proxy *corev1.Secret) (*tls.Config, error) {
	certificate, err := tls.X509KeyPair(proxy.Data[corev1.TLSCertKey], proxy.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, err
	}
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(proxy.Data["ca.crt"])
	return &tls.Config{Certificates: []tls.Certificate{certificate}, RootCAs: authorities, ServerName: "envoy-gateway", MinVersion: tls.VersionTLS12}, nil
}

// writeKubeconfig writes a kubeconfig with a token of the service account of Envoy Gateway.
func writeKubeconfig(ctx context.Context, file string) error {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(time.Hour.Seconds()))}}
	token, err := west().Kubernetes.CoreV1().ServiceAccounts(system).CreateToken(ctx, "envoy-gateway", request, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	admin, err := west().Plane.AdminConfig()
	if err != nil {
		return err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["west"] = &clientcmdapi.Cluster{Server: admin.Host, CertificateAuthorityData: west().Plane.CertificateAuthority()}
	config.AuthInfos["envoy-gateway"] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	config.Contexts["west"] = &clientcmdapi.Context{Cluster: "west", AuthInfo: "envoy-gateway"}
	config.CurrentContext = "west"
	return clientcmd.WriteToFile(*config, file)
}

// kubectl runs kubectl in west. It must succeed.
func kubectl(t *testing.T, args ...string) {
	t.Helper()
	expect.NoError(t, runKubectl(t.Context(), args...))
}

func runKubectl(ctx context.Context, args ...string) error {
	output, err := clusters.KubectlCommand(ctx, west().Plane.AdminKubeconfig(), args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, output)
	}
	return nil
}
