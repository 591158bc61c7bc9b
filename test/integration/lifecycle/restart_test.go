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
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/marker"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/pki"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/process"
)

// Shutting down closes open watches and does not wait for clients to disconnect.
func TestShutdownIsGracefulAndQuick(t *testing.T) {
	installed := running(t)
	watcher, err := clientset(t).MulticlusterXV1beta1().ServiceExports("").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	started := time.Now()
	if err := installed.APIServers[0].Stop(30 * time.Second); err != nil {
		t.Fatal(err)
	}
	if err := installed.APIServers[0].Err(); err != nil {
		t.Errorf("exited with %v, want a clean exit", err)
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
			t.Fatal("watch is still open")
		}
	}
	restart(t, installed)
}

// A connection that is established while the server begins to stop is not sent a
// GOAWAY. The server waits for it only briefly, or the kubelet would kill the Pod.
func TestConnectionEstablishedWhileStoppingDelaysShutdownBriefly(t *testing.T) {
	installed := running(t)
	replica := installed.APIServers[0]
	address := strings.TrimPrefix(replica.URL(), "https://")
	plain, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	slow := &slowConnection{Conn: plain, answered: make(chan struct{}), resumed: make(chan struct{})}
	connection := tls.Client(slow, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}) //nolint:gosec // the identity of the server does not matter
	shaken := make(chan error, 1)
	go func() { shaken <- connection.HandshakeContext(t.Context()) }()
	<-slow.answered
	started, stopped := time.Now(), make(chan error, 1)
	go func() { stopped <- replica.Stop(30 * time.Second) }()
	expect.Eventually(t, "end of listening", func(context.Context) error {
		another, err := net.Dial("tcp", address)
		if err != nil {
			return nil //nolint:nilerr // this is what is waited for
		}
		return errors.Join(another.Close(), errors.New("server still listens"))
	})
	close(slow.resumed)
	expect.NoError(t, <-shaken)
	const settings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00" // none
	if _, err := io.WriteString(connection, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+settings); err != nil {
		t.Error(err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	t.Logf("shutting down took %s", time.Since(started))
	restart(t, installed)
}

// slowConnection sends one message, and the others when it is resumed. A connection that
// was answered was accepted: others are reset when the server stops listening.
type slowConnection struct {
	net.Conn
	answered, resumed chan struct{}
	sent, received    bool
}

// Write implements net.Conn.
func (c *slowConnection) Write(data []byte) (int, error) {
	if c.sent {
		<-c.resumed
	}
	c.sent = true
	return c.Conn.Write(data)
}

// Read implements net.Conn.
func (c *slowConnection) Read(data []byte) (int, error) {
	n, err := c.Conn.Read(data)
	if !c.received {
		close(c.answered)
	}
	c.received = true
	return n, err
}

func restart(t *testing.T, installed *installation.Installation) {
	t.Helper()
	if err := installed.StartAPIServers(); err != nil {
		t.Fatal(err)
	}
	expect.Eventually(t, "API after a restart", func(ctx context.Context) error {
		_, err := clientset(t).MulticlusterXV1beta1().ServiceExports("default").List(ctx, metav1.ListOptions{})
		return err
	})
}

// Acknowledged writes survive SIGKILL at any time.
func TestAcknowledgedWritesSurviveKill(t *testing.T) {
	installed := running(t)
	client := clientset(t).MulticlusterXV1beta1().ServiceExports("default")
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
		restart(t, installed)
	}
	stored := map[string]bool{}
	// The aggregator may find out that the server was down after it is up again.
	expect.Eventually(t, "exports after restarts", func(ctx context.Context) error {
		list, err := client.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, item := range list.Items {
			stored[item.Name] = true
		}
		return nil
	})
	for _, name := range acknowledged {
		if !stored[name] {
			t.Errorf("%s was acknowledged but is lost", name)
		}
	}
}

// With --storage=etcd, the server stores its objects in that etcd, here one with
// TLS client authentication.
func TestExternalEtcd(t *testing.T) {
	installed := running(t)
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
		Name: "etcd with TLS", Path: filepath.Join(plane.Bin, "etcd"), Log: filepath.Join(installed.Dir, "external-etcd.log"),
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
	t.Cleanup(func() { // the next test starts the server with its own storage
		expect.NoError(t, installed.APIServers[0].Stop(30*time.Second))
		installed.StorageFlags = nil
		expect.NoError(t, installed.Kubernetes.CoreV1().ConfigMaps(installation.Namespace).Delete(context.Background(), marker.Name, metav1.DeleteOptions{}))
	})
	// The cluster was in use with other storage.
	installed.StorageFlags = []string{"--storage=etcd", "--etcd-servers=" + url, "--etcd-cafile=" + ca, "--etcd-certfile=" + cert, "--etcd-keyfile=" + key, "--accept-storage"}
	restart(t, installed)
	client := clientset(t).MulticlusterXV1beta1().ServiceExports("default")
	if list, err := client.List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 0 {
		t.Errorf("external etcd already holds %d exports (%v)", len(list.Items), err)
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
		t.Errorf("export is not in the external etcd: %v, %v", stored, err)
	}
}
