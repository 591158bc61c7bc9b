// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/mcs-api/config/crd"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/pki"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/process"
)

var installed *installation.Installation

func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	output, err := installed.Kubectl(t.Context(), args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return output
}

func exports(t *testing.T) versioned.Interface {
	t.Helper()
	admin, err := config.Plane.AdminConfig()
	if err != nil {
		t.Fatal(err)
	}
	admin.WarningHandler = rest.NoWarnings{}
	client, err := versioned.NewForConfig(admin)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// readiness is what the controller says of itself.
func readiness(ctx context.Context) (int, string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, installed.HealthURL()+"/readyz", nil)
	if err != nil {
		return 0, "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

func TestArtifactsMeetThePodSecurityOfTheirNamespace(t *testing.T) {
	var err error
	if installed, err = installation.Apply(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	expect.Contains(t, kubectl(t, "get", "namespace", installation.Namespace, "-o", "yaml"), "pod-security.kubernetes.io/enforce: restricted")
	spec := kubectl(t, "get", "deployment", "mcs-apiserver", "-n", installation.Namespace, "-o", "jsonpath={.spec.template.spec}")
	kubectl(t, "create", "--dry-run=server", "-f", expect.Manifest(t,
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"trial","namespace":%q},"spec":%s}`, installation.Namespace, spec))
}

func TestRegistrationOverACRDIsRefused(t *testing.T) {
	for _, definition := range [][]byte{crd.ServiceExportCRD, crd.ServiceImportCRD} {
		kubectl(t, "apply", "-f", expect.Manifest(t, "%s", definition))
	}
	kubectl(t, "wait", "crd/serviceexports.multicluster.x-k8s.io", "crd/serviceimports.multicluster.x-k8s.io", "--for=condition=Established", "--timeout=60s")
	// Objects of the CRDs, which the next test takes along.
	kubectl(t, "create", "-f", expect.Manifest(t, "apiVersion: multicluster.x-k8s.io/v1beta1\nkind: ServiceExport\n"+
		"metadata: {name: migrated, namespace: default}\nspec: {exportedLabels: {from: crd}}\n"))
	kubectl(t, "get", "serviceexports,serviceimports", "-A")
	expect.Eventually(t, "APIServices of the CRDs", func(ctx context.Context) error {
		_, err := installed.Aggregator.ApiregistrationV1().APIServices().Get(ctx, "v1alpha1.multicluster.x-k8s.io", metav1.GetOptions{})
		return err
	})
	if err := installed.StartController(t.Context()); err != nil {
		t.Fatal(err)
	}
	reason := "CustomResourceDefinition serviceexports.multicluster.x-k8s.io, serviceimports.multicluster.x-k8s.io serves multicluster.x-k8s.io/v1alpha1"
	expect.Eventually(t, "readiness", func(ctx context.Context) error {
		if code, body, err := readiness(ctx); err != nil || code != http.StatusServiceUnavailable || !strings.Contains(body, reason) {
			return fmt.Errorf("%d %s %w", code, body, err)
		}
		return nil
	})
	expect.Eventually(t, "Event", func(ctx context.Context) error {
		output, err := installed.Kubectl(ctx, "describe", "deployment", "-n", installation.Namespace, "mcs-apiserver")
		if err != nil || !strings.Contains(output, "RegistrationRefused") || !strings.Contains(output, reason) {
			return fmt.Errorf("%w\n%s", err, output)
		}
		return nil
	})
	log, err := os.ReadFile(filepath.Join(config.Dir, "mcs-controller.log"))
	if err != nil {
		t.Fatal(err)
	}
	expect.Contains(t, string(log), reason, "kubectl label apiservice v1alpha1.multicluster.x-k8s.io kube-aggregator.kubernetes.io/automanaged-")
	expect.Lacks(t, kubectl(t, "get", "apiservices"), "mcs-system/mcs-apiserver")
}

// The way that docs/operations.md describes.
func TestGroupVersionIsTakenOverWhenHandedOver(t *testing.T) {
	saved := expect.Manifest(t, "%s", kubectl(t, "get", "serviceexports", "-A", "-o", "yaml"))
	kubectl(t, "label", "apiservice", "v1alpha1.multicluster.x-k8s.io", "v1beta1.multicluster.x-k8s.io", "kube-aggregator.kubernetes.io/automanaged-")
	if err := installed.StartAPIServers(); err != nil {
		t.Fatal(err)
	}
	if err := installed.AwaitAvailable(t.Context()); err != nil {
		t.Fatal(err)
	}
	if code, body, err := readiness(t.Context()); err != nil || code != http.StatusOK {
		t.Errorf("still not ready: %d %s %v", code, body, err)
	}
	if list := kubectl(t, "get", "serviceexports", "-A"); !strings.Contains(list, "No resources found") {
		t.Errorf("there are exports before any was applied:\n%s", list)
	}
	kubectl(t, "apply", "-f", saved)
	if label := kubectl(t, "get", "serviceexport", "migrated", "-n", "default", "-o", "jsonpath={.spec.exportedLabels.from}"); label != "crd" {
		t.Errorf("the migrated export has the label %q", label)
	}
	// The CRDs can now go, and what took their place stays.
	kubectl(t, "delete", "crd", "serviceexports.multicluster.x-k8s.io", "serviceimports.multicluster.x-k8s.io", "--timeout=60s")
	for _, name := range installation.GroupVersions {
		expect.Contains(t, kubectl(t, "get", "apiservice", name), "mcs-system/mcs-apiserver", "True")
	}
}

func TestChangedAPIServiceIsMended(t *testing.T) {
	client := installed.Aggregator.ApiregistrationV1().APIServices()
	for name, spoil := range map[string]func(context.Context) error{
		"deleted": func(ctx context.Context) error {
			return client.Delete(ctx, installation.GroupVersions[0], metav1.DeleteOptions{})
		},
		"changed": func(ctx context.Context) error {
			_, err := installed.Kubectl(ctx, "patch", "apiservice", installation.GroupVersions[0], "--type=merge", "-p", `{"spec":{"caBundle":null,"insecureSkipTLSVerify":true}}`)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := spoil(t.Context()); err != nil {
				t.Fatal(err)
			}
			expect.Eventually(t, "APIService", func(ctx context.Context) error {
				apiService, err := client.Get(ctx, installation.GroupVersions[0], metav1.GetOptions{})
				if err == nil && (len(apiService.Spec.CABundle) == 0 || apiService.Spec.InsecureSkipTLSVerify || apiService.Spec.Service == nil) {
					err = fmt.Errorf("not mended: %+v", apiService.Spec)
				}
				return err
			})
		})
	}
}

// A new certificate, here because its Secret is gone, reaches the running
// server and the kube-apiserver without a restart.
func TestNewServingCertificateIsPickedUp(t *testing.T) {
	ctx := t.Context()
	before := servedBy(t)
	kubectl(t, "delete", "secret", "-n", installation.Namespace, "mcs-apiserver-serving-cert")
	expect.Eventually(t, "new certificate", func(context.Context) error {
		if servedBy(t) == before {
			return fmt.Errorf("the server still serves with the old certificate")
		}
		return nil
	})
	expect.Eventually(t, "API", func(context.Context) error {
		_, err := exports(t).MulticlusterXV1beta1().ServiceExports("default").List(ctx, metav1.ListOptions{})
		return err
	})
}

// Shutting down ends open watches and loses nothing; it does not wait for clients to leave.
func TestShutdownIsGracefulAndQuick(t *testing.T) {
	watcher, err := exports(t).MulticlusterXV1beta1().ServiceExports("").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	started := time.Now()
	if err := installed.APIServers[0].Stop(30 * time.Second); err != nil {
		t.Fatal(err)
	}
	if err := installed.APIServers[0].Err(); err != nil {
		t.Errorf("ended with %v, want a clean exit", err)
	}
	if took := time.Since(started); took > 15*time.Second {
		t.Errorf("shutting down took %s", took)
	} else {
		t.Logf("shutting down took %s", took)
	}
	closed := time.After(expect.Patience)
	for open := true; open; {
		select {
		case _, open = <-watcher.ResultChan():
		case <-closed:
			t.Fatal("the watch is still open")
		}
	}
	restart(t)
}

// Nobody tells a connection to go that was being made when the server began to
// stop. It is not waited for for long: a Pod would be killed in the end.
func TestConnectionMadeWhileStoppingIsNotWaitedForForLong(t *testing.T) {
	replica := installed.APIServers[0]
	address := strings.TrimPrefix(replica.URL(), "https://")
	plain, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	started, stopped := time.Now(), make(chan error, 1)
	go func() { stopped <- replica.Stop(30 * time.Second) }()
	expect.Eventually(t, "end of listening", func(context.Context) error {
		another, err := net.Dial("tcp", address)
		if err != nil {
			return nil //nolint:nilerr // this is what is waited for
		}
		return errors.Join(another.Close(), errors.New("it still listens"))
	})
	connection := tls.Client(plain, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}) //nolint:gosec // it is not about whom it talks to
	const settings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"                                            // none
	if _, err := io.WriteString(connection, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+settings); err != nil {
		t.Fatal(err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	t.Logf("shutting down took %s", time.Since(started))
	restart(t)
}

func restart(t *testing.T) {
	t.Helper()
	if err := installed.StartAPIServers(); err != nil {
		t.Fatal(err)
	}
	expect.Eventually(t, "API after a restart", func(ctx context.Context) error {
		_, err := exports(t).MulticlusterXV1beta1().ServiceExports("default").List(ctx, metav1.ListOptions{})
		return err
	})
}

// What was acknowledged is there after kill -9, at whatever moment it comes.
func TestAcknowledgedWritesSurviveKill(t *testing.T) {
	client := exports(t).MulticlusterXV1beta1().ServiceExports("default")
	var acknowledged []string
	for round := range 3 {
		enough, ended := make(chan struct{}), make(chan []string)
		go func() {
			var names []string
			for i := 0; ; i++ {
				name := fmt.Sprintf("svc-%d-%d", round, i)
				if _, err := client.Create(t.Context(), &v1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
					ended <- names
					return
				}
				names = append(names, name)
				if i == 20 {
					close(enough)
				}
			}
		}()
		<-enough
		installed.APIServers[0].Kill()
		names := <-ended
		t.Logf("round %d: %d writes were acknowledged before the server was killed", round, len(names))
		acknowledged = append(acknowledged, names...)
		restart(t)
	}
	list, err := client.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stored := map[string]bool{}
	for _, item := range list.Items {
		stored[item.Name] = true
	}
	for _, name := range acknowledged {
		if !stored[name] {
			t.Errorf("%s was acknowledged and is lost", name)
		}
	}
}

// With --etcd-servers the server keeps its objects in that etcd, here one
// that speaks TLS and lets nobody in without a certificate.
func TestExternalEtcd(t *testing.T) {
	dir := t.TempDir()
	authority, err := pki.NewAuthority("etcd")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue(pki.Subject{Name: "etcd", IPs: []net.IP{net.IPv4(127, 0, 0, 1)}})
	if err == nil {
		err = errors.Join(pair.Write(dir, "etcd"), authority.Write(dir, "ca"))
	}
	if err != nil {
		t.Fatal(err)
	}
	const url = "https://127.0.0.1:2579"
	ca, cert, key := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "etcd.crt"), filepath.Join(dir, "etcd.key")
	server, err := process.Start(process.Command{
		Name: "etcd with TLS", Path: filepath.Join(config.Plane.Bin, "etcd"), Log: filepath.Join(config.Dir, "external-etcd.log"),
		Args: []string{
			"--data-dir=" + filepath.Join(dir, "data"), "--listen-client-urls=" + url, "--advertise-client-urls=" + url,
			"--listen-peer-urls=http://127.0.0.1:2580", "--client-cert-auth", "--trusted-ca-file=" + ca, "--cert-file=" + cert, "--key-file=" + key,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Kill)

	if err := installed.APIServers[0].Stop(30 * time.Second); err != nil {
		t.Fatal(err)
	}
	installed.APIServerFlags = []string{"--etcd-servers=" + url, "--etcd-cafile=" + ca, "--etcd-certfile=" + cert, "--etcd-keyfile=" + key}
	restart(t)
	client := exports(t).MulticlusterXV1beta1().ServiceExports("default")
	if list, err := client.List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 0 {
		t.Errorf("the new etcd holds %d exports already (%v)", len(list.Items), err)
	}
	if _, err := client.Create(t.Context(), &v1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Name: "outside"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	trust, err := transport.TLSInfo{CertFile: cert, KeyFile: key, TrustedCAFile: ca}.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	store, err := clientv3.New(clientv3.Config{Endpoints: []string{url}, TLS: trust, DialTimeout: expect.Patience})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	stored, err := store.Get(t.Context(), "/registry/mcs-apiserver/multicluster.x-k8s.io/serviceexports/default/outside")
	if err != nil || stored.Count != 1 {
		t.Errorf("the export is not in the external etcd: %v, %v", stored, err)
	}
}

func TestUninstallingRemovesTheAPI(t *testing.T) {
	if err := installed.Stop(); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "delete", "-k", filepath.Join(config.Root, "artifacts", "default"), "--timeout=100s")
	for _, name := range installation.GroupVersions {
		expect.Eventually(t, "APIService "+name, func(ctx context.Context) error {
			_, err := installed.Aggregator.ApiregistrationV1().APIServices().Get(ctx, name, metav1.GetOptions{})
			if !apierrors.IsNotFound(err) {
				return fmt.Errorf("it is still there: %w", err)
			}
			return nil
		})
	}
	expect.Lacks(t, kubectl(t, "api-resources"), "multicluster")
}
