// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/servingcert"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
)

// servingSerial returns the serial number of the certificate that the server presents.
func servingSerial(t *testing.T, installed *installation.Installation) string {
	t.Helper()
	connection, err := tls.Dial("tcp", strings.TrimPrefix(installed.APIServers[0].URL(), "https://"), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // only to look at the certificate
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	return connection.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

// Replicas that start together and renew together agree on one certificate.
func TestReplicasShareOneCertificate(t *testing.T) {
	admin, err := plane.AdminConfig()
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(admin)
	if err != nil {
		t.Fatal(err)
	}
	ns, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "replicas-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	clock := testingclock.NewFakeClock(time.Now())
	var dirs []string
	for range 3 {
		dir := t.TempDir()
		dirs = append(dirs, dir)
		replica := servingcert.New(client, ns.Name, "mcs-apiserver", dir, clock, func([]byte) {})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- replica.Run(ctx) }()
		t.Cleanup(func() {
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
	agreed := func(previous string) string {
		var first string
		expect.Eventually(t, "agreement", func(context.Context) error {
			clock.Step(time.Second) // replicas that lost a race retry
			first = ""
			for _, dir := range dirs {
				data, err := os.ReadFile(servingcert.CertificateFile(dir))
				switch {
				case err != nil:
					return err
				case string(data) == previous:
					return errors.New("a replica has not renewed")
				case first != "" && string(data) != first:
					return errors.New("replicas have different certificates")
				}
				first = string(data)
			}
			return nil
		})
		if _, err := tls.X509KeyPair([]byte(first), []byte(first)); err != nil {
			t.Fatalf("file is not a usable key pair: %v", err)
		}
		return first
	}
	first := agreed("")
	clock.Step(250 * 24 * time.Hour)
	agreed(first)
}

// aged returns the data of the Secret as if the CA and the serving certificate had been issued
// so long ago that both are to be renewed. Clients trust them as before: the keys are the same.
func aged(t *testing.T, secret *corev1.Secret) map[string][]byte {
	t.Helper()
	data := maps.Clone(secret.Data)
	key := expect.Must(keyutil.ParsePrivateKeyPEM(data["ca.key"]))(t).(crypto.Signer)
	authority := expect.Must(cert.ParseCertsPEM(data["ca.crt"]))(t)[0]
	serving := expect.Must(cert.ParseCertsPEM(data[corev1.TLSCertKey]))(t)[0]
	public := serving.PublicKey
	for _, certificate := range []*x509.Certificate{authority, serving} {
		life := certificate.NotAfter.Sub(certificate.NotBefore)
		certificate.NotBefore = time.Now().Add(-life / 10 * 7)
		certificate.NotAfter = certificate.NotBefore.Add(life)
	}
	encode := func(der []byte) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: der})
	}
	data["ca.crt"] = encode(expect.Must(x509.CreateCertificate(rand.Reader, authority, authority, key.Public(), key))(t))
	data[corev1.TLSCertKey] = encode(expect.Must(x509.CreateCertificate(rand.Reader, serving, authority, public, key))(t))
	return data
}

// R371: while the serving certificate and its CA are renewed, no request fails, and every new
// connection of clients that trust the CA bundle of the APIService succeeds.
func TestCertificatesAreRenewedWithoutAFailedRequest(t *testing.T) {
	installed := running(t)
	secrets := installed.Kubernetes.CoreV1().Secrets(installation.Namespace)
	secret := expect.Must(secrets.Get(t.Context(), servingcert.SecretName, metav1.GetOptions{}))(t)
	published := func(ctx context.Context) ([]byte, error) {
		apiService, err := installed.Aggregator.ApiregistrationV1().APIServices().Get(ctx, installation.GroupVersions[0], metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return apiService.Spec.CABundle, nil
	}
	before, authority := servingSerial(t, installed), expect.Must(published(t.Context()))(t)
	secret.Data = aged(t, secret)
	expect.Must(secrets.Update(t.Context(), secret, metav1.UpdateOptions{}))(t)
	exports := clientset(t).MulticlusterXV1beta1().ServiceExports("default")
	requests, renewed := 0, time.Time{}
	for deadline := time.Now().Add(time.Minute); renewed.IsZero() || time.Since(renewed) < 5*time.Second; requests++ {
		if time.Now().After(deadline) {
			t.Fatal("not renewed")
		}
		trusted := expect.Must(published(t.Context()))(t)
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(trusted)
		connection, err := tls.Dial("tcp", strings.TrimPrefix(installed.APIServers[0].URL(), "https://"), &tls.Config{RootCAs: roots, ServerName: "localhost"}) //nolint:gosec // the default is what clients use
		if err != nil {
			t.Fatalf("after %d requests, a client that trusts the CA bundle of the APIService: %v", requests, err)
		}
		serial := connection.ConnectionState().PeerCertificates[0].SerialNumber.String()
		connection.Close()
		if _, err := exports.List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Fatalf("after %d requests: %v", requests, err)
		}
		if renewed.IsZero() && serial != before && !bytes.Equal(trusted, authority) {
			renewed = time.Now()
		}
	}
	if authorities := expect.Must(cert.ParseCertsPEM(expect.Must(published(t.Context()))(t)))(t); len(authorities) != 2 {
		t.Errorf("%d CAs are trusted, want the new one and its predecessor", len(authorities))
	}
	t.Logf("%d requests", requests)
}

// A new certificate, here because its Secret was deleted, is used by the running
// server and trusted by the kube-apiserver without a restart.
func TestNewServingCertificateIsPickedUp(t *testing.T) {
	installed := running(t)
	before := servingSerial(t, installed)
	kubectl(t, installed, "delete", "secret", "-n", installation.Namespace, "mcs-apiserver-serving-cert")
	expect.Eventually(t, "new certificate", func(context.Context) error {
		if servingSerial(t, installed) == before {
			return errors.New("the server still presents the old certificate")
		}
		return nil
	})
	expect.Eventually(t, "API", func(ctx context.Context) error {
		_, err := clientset(t).MulticlusterXV1beta1().ServiceExports("default").List(ctx, metav1.ListOptions{})
		return err
	})
}
