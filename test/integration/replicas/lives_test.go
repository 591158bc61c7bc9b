// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// R160, R161, R164: imports that are withdrawn and exported again have new UIDs,
// which are the same in every replica and after restarts. What is recorded about
// them goes with the namespace.
func TestNextLifeIsTheSameInEveryReplica(t *testing.T) {
	const ns, count = "lives", 20
	expect.NoError(t, east().Namespace(t.Context(), ns))
	namespace, err := east().Kubernetes.CoreV1().Namespaces().Get(t.Context(), ns, metav1.GetOptions{})
	expect.NoError(t, err)
	exports := east().Clientset.MulticlusterXV1beta1().ServiceExports(ns)
	each := func(do func(name string) error) {
		t.Helper()
		for i := range count {
			expect.NoError(t, do(fmt.Sprintf("service-%d", i)))
		}
	}
	export := func(name string) error {
		_, err := east().Export(t.Context(), ns, name)
		return err
	}
	withdraw := func(name string) error { return exports.Delete(t.Context(), name, metav1.DeleteOptions{}) }
	each(func(name string) error {
		_, err := east().Service(t.Context(), ns, name)
		return err
	})
	former, current := map[string]bool{}, map[string]string{}
	// expectIdentities expects identities that none of the imports had before, or
	// the present ones.
	expectIdentities := func() {
		t.Helper()
		for key, identity := range awaitSame(t, ns, count) {
			uid, _, _ := strings.Cut(identity, " ")
			if former[uid] {
				t.Errorf("%s has a UID that it had before", key)
			}
			former[current[key]] = current[key] != uid
			current[key] = uid
		}
	}
	each(export)
	expectIdentities()
	each(withdraw)
	start := time.Now()
	awaitSame(t, ns, 0)
	t.Logf("%d imports were withdrawn in both replicas within %s", count, time.Since(start).Round(time.Millisecond))
	first := maps.Clone(current)
	each(export)
	expectIdentities()
	for key, uid := range current {
		if first[key] == uid {
			t.Errorf("%s has the same UID in its next life", key)
		}
	}

	before := awaitSame(t, ns, count)
	for _, replica := range east().APIServers {
		replica.Kill()
		<-replica.Exited()
		expect.NoError(t, replica.Start())
		expect.NoError(t, replica.AwaitReady(t.Context()))
	}
	for key, identity := range awaitSame(t, ns, count) {
		if before[key] != identity {
			t.Errorf("%s was %q before the restarts, is %q", key, before[key], identity)
		}
	}

	// A replica may not notice that an export was withdrawn for a moment only.
	each(func(name string) error {
		if err := withdraw(name); err != nil {
			return err
		}
		return export(name)
	})
	expectIdentities()

	if got := records(t, namespace.UID); got < 1 || got > 16 {
		t.Errorf("%d records for the namespace", got)
	}
	deleteNamespace(t, namespace)
}

// deleteNamespace deletes a namespace and waits until nothing is recorded about its
// imports.
func deleteNamespace(t *testing.T, namespace *corev1.Namespace) {
	t.Helper()
	expect.NoError(t, east().Kubernetes.CoreV1().Namespaces().Delete(t.Context(), namespace.Name, metav1.DeleteOptions{}))
	expect.Eventually(t, "end of the records", func(context.Context) error {
		if got := records(t, namespace.UID); got != 0 {
			return fmt.Errorf("%d records for the namespace", got)
		}
		return nil
	})
}

// R163: an import that was withdrawn while no server was running has another UID when
// it is exported again.
func TestEndDuringAnOutageIsRecordedAtStartup(t *testing.T) {
	const ns, name = "outage", "web"
	expect.NoError(t, east().Namespace(t.Context(), ns))
	namespace, err := east().Kubernetes.CoreV1().Namespaces().Get(t.Context(), ns, metav1.GetOptions{})
	expect.NoError(t, err)
	exportReady(t, ns, name)
	before, err := east().Import(t.Context(), ns, name)
	expect.NoError(t, err)
	for _, replica := range east().APIServers {
		replica.Kill()
		<-replica.Exited()
	}
	expect.NoError(t, east().Kubernetes.CoreV1().Services(ns).Delete(t.Context(), name, metav1.DeleteOptions{}))
	for _, replica := range east().APIServers {
		expect.NoError(t, replica.Start())
		expect.NoError(t, replica.AwaitReady(t.Context()))
	}
	awaitSame(t, ns, 0)
	_, err = east().Service(t.Context(), ns, name)
	expect.NoError(t, err)
	for _, after := range awaitSame(t, ns, 1) {
		if strings.HasPrefix(after, string(before.UID)+" ") {
			t.Errorf("the import has the UID %s again", before.UID)
		}
	}
	deleteNamespace(t, namespace)
}
