// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"crypto/tls"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
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
