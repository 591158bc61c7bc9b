// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
)

const (
	storage     = "mcs-storage"
	storageRole = "mcs-apiserver:storage"
	account     = "--as=system:serviceaccount:mcs-system:mcs-apiserver"
)

// withStorage returns a new installation whose API is available, although its storage
// namespace is deleted. Nothing of it, including that namespace, is left when the test ends.
func withStorage(t *testing.T) *installation.Installation {
	t.Helper()
	var installed *installation.Installation
	t.Cleanup(func() { // after uninstalling
		if output, err := installed.Kubectl(context.Background(), "delete", "namespace", storage, "--ignore-not-found", "--timeout=60s"); err != nil {
			t.Errorf("delete the storage namespace: %v\n%s", err, output)
		}
	})
	installed = embedded(t) // without its servers, no namespace could be deleted
	return installed
}

// awaitStorage waits until the storage namespace exists with another UID than before, and
// mcs-apiserver may write to it. It returns the UID.
func awaitStorage(t *testing.T, installed *installation.Installation, before types.UID) types.UID {
	t.Helper()
	var uid types.UID
	expect.Eventually(t, "storage namespace", func(ctx context.Context) error {
		namespace, err := installed.Kubernetes.CoreV1().Namespaces().Get(ctx, storage, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if uid = namespace.UID; uid == before || namespace.DeletionTimestamp != nil {
			return errors.New("not created again yet")
		}
		for _, verb := range []string{"get", "list", "watch", "create", "update", "delete"} {
			if output, err := installed.Kubectl(ctx, "auth", "can-i", verb, "configmaps", "-n", storage, account); err != nil {
				return fmt.Errorf("mcs-apiserver may not %s ConfigMaps: %s", verb, output)
			}
		}
		return nil
	})
	return uid
}

// deleteStorage deletes the storage namespace on purpose.
func deleteStorage(t *testing.T, installed *installation.Installation) {
	t.Helper()
	kubectl(t, installed, "annotate", "namespace", storage, "storage.mcs-apiserver.io/allow-deletion=true")
	kubectl(t, installed, "delete", "namespace", storage, "--timeout=60s")
}

// refusedByPolicy waits until a policy refuses a command: policies take effect a moment
// after they were created. It returns the answer.
func refusedByPolicy(t *testing.T, installed *installation.Installation, policy string, args ...string) string {
	t.Helper()
	var answer string
	expect.Eventually(t, "refusal of "+strings.Join(args, " "), func(ctx context.Context) error {
		output, err := installed.Kubectl(ctx, args...)
		if answer = output; err == nil || !strings.Contains(output, policy) {
			return fmt.Errorf("%w: %s", err, output)
		}
		return nil
	})
	return answer
}

// R150: mcs-controller creates the storage namespace with the permissions of mcs-apiserver
// in it, and restores both, event by event.
func TestStorageNamespaceIsRestored(t *testing.T) {
	installed := withStorage(t)
	uid := awaitStorage(t, installed, "")
	expect.Contains(t, kubectl(t, installed, "get", "namespace", storage, "-o", "yaml"), "app.kubernetes.io/name: mcs-apiserver", "kubernetes.io/description")
	for what, change := range map[string][]string{
		"deleted":         {"delete", "rolebinding", storageRole, "-n", storage},
		"without account": {"patch", "rolebinding", storageRole, "-n", storage, "--type=json", `-p=[{"op":"remove","path":"/subjects"}]`},
	} {
		t.Run("RoleBinding "+what, func(t *testing.T) {
			kubectl(t, installed, change...)
			awaitStorage(t, installed, "")
		})
	}
	deleteStorage(t, installed)
	awaitStorage(t, installed, uid)
}

// R150: the account of mcs-apiserver, which may create namespaces and RoleBindings, can
// create no others than those of the storage.
func TestAccountIsConfinedToTheStorageNamespace(t *testing.T) {
	installed := withStorage(t)
	awaitStorage(t, installed, "")
	const policy = "account.mcs-apiserver.io"
	bind := func(namespace, name, role, subject string) []string {
		return []string{"create", "rolebinding", name, "-n", namespace, "--clusterrole=" + role, "--serviceaccount=" + subject, account}
	}
	for what, args := range map[string][]string{
		"another namespace":            {"create", "namespace", "other", account},
		"binding in another namespace": bind("kube-system", storageRole, storageRole, "mcs-system:mcs-apiserver"),
		"another binding":              bind(storage, "other", storageRole, "mcs-system:mcs-apiserver"),
		"binding of another account":   bind(storage, storageRole, storageRole, "default:default"),
		"update for another account": {"replace", "-f", expect.Manifest(t, "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: %q, namespace: %s}\n"+
			"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %q}\nsubjects: [{kind: ServiceAccount, name: default, namespace: default}]\n", storageRole, storage, storageRole), account},
	} {
		t.Run(what, func(t *testing.T) { refusedByPolicy(t, installed, policy, args...) })
	}
	for what, args := range map[string][]string{
		"another role":              bind(storage, storageRole, "cluster-admin", "mcs-system:mcs-apiserver"),
		"deleting the namespace":    {"delete", "namespace", storage, account},
		"changing the namespace":    {"label", "namespace", storage, "a=b", account},
		"other ConfigMaps":          {"get", "configmaps", "-n", "kube-system", account},
		"ConfigMaps of mcs-system":  {"delete", "configmap", "kube-root-ca.crt", "-n", installation.Namespace, account},
		"creating roles to be used": {"create", "clusterrole", "other", "--verb=get", "--resource=secrets", account},
	} {
		if output, err := installed.Kubectl(t.Context(), args...); err == nil || !strings.Contains(output, "orbidden") {
			t.Errorf("%s: %v %s", what, err, output)
		}
	}
}

// R151: nobody but mcs-apiserver writes stored objects, not even members of
// system:masters, unless the namespace says so. Other ConfigMaps are not affected.
func TestStoredObjectsAreProtected(t *testing.T) {
	installed := withStorage(t)
	uid := awaitStorage(t, installed, "")
	const policy = "storage.mcs-apiserver.io"
	stored := expect.Manifest(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: export, namespace: %s, labels: {storage.mcs-apiserver.io/resource: serviceexports}}\ndata: {key: value}\n", storage)
	kubectl(t, installed, "create", "-f", stored, account)
	kubectl(t, installed, "create", "configmap", "storage-marker", "-n", storage, account)
	write := map[string][]string{
		"create": {"create", "-f", expect.Manifest(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: forged, namespace: %s, labels: {storage.mcs-apiserver.io/resource: serviceexports}}\n", storage)},
		"change": {"patch", "configmap", "export", "-n", storage, "--type=merge", `-p={"data":{"key":"other"}}`},
		"freeze": {"patch", "configmap", "export", "-n", storage, "--type=merge", `-p={"immutable":true}`},
		"hide":   {"label", "configmap", "export", "-n", storage, "storage.mcs-apiserver.io/resource-"},
		"forge":  {"label", "configmap", "mine", "-n", storage, "storage.mcs-apiserver.io/resource=serviceexports"},
		"give to the garbage collector": {"patch", "configmap", "export", "-n", storage, "--type=merge",
			`-p={"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"gone","uid":"gone"}]}}`},
		"delete":            {"delete", "configmap", "export", "-n", storage},
		"delete all":        {"delete", "configmaps", "-l", "storage.mcs-apiserver.io/resource", "-n", storage},
		"delete the marker": {"delete", "configmap", "storage-marker", "-n", storage},
	}
	kubectl(t, installed, "create", "configmap", "mine", "-n", storage)
	for what, args := range write {
		t.Run(what, func(t *testing.T) {
			expect.Contains(t, refusedByPolicy(t, installed, policy, args...), "kubectl annotate namespace mcs-storage storage.mcs-apiserver.io/allow-writes=true")
		})
	}
	t.Run("delete the namespace", func(t *testing.T) {
		expect.Contains(t, refusedByPolicy(t, installed, policy, "delete", "namespace", storage, "--wait=false"),
			"kubectl annotate namespace mcs-storage storage.mcs-apiserver.io/allow-deletion=true")
	})
	t.Run("writes without a change", func(t *testing.T) {
		kubectl(t, installed, "replace", "-f", expect.Manifest(t, "%s", kubectl(t, installed, "get", "configmap", "export", "-n", storage, "-o", "yaml")))
	})
	t.Run("other ConfigMaps", func(t *testing.T) {
		kubectl(t, installed, "create", "configmap", "yours", "-n", storage)
		kubectl(t, installed, "label", "configmap", "yours", "-n", storage, "a=b")
		kubectl(t, installed, "delete", "configmap", "yours", "-n", storage)
		expect.Eventually(t, "ConfigMap of kube-controller-manager", func(ctx context.Context) error {
			_, err := installed.Kubernetes.CoreV1().ConfigMaps(storage).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
			return err
		})
	})
	t.Run("on purpose", func(t *testing.T) {
		kubectl(t, installed, "annotate", "namespace", storage, "storage.mcs-apiserver.io/allow-writes=true")
		expect.Eventually(t, "permission to write", func(ctx context.Context) error {
			output, err := installed.Kubectl(ctx, write["change"]...)
			if err != nil {
				return fmt.Errorf("%w: %s", err, output)
			}
			return nil
		})
		kubectl(t, installed, write["create"]...)
		kubectl(t, installed, "annotate", "namespace", storage, "storage.mcs-apiserver.io/allow-writes-")
		refusedByPolicy(t, installed, policy, write["delete"]...)
	})
	t.Run("deletion on purpose", func(t *testing.T) {
		deleteStorage(t, installed)
		awaitStorage(t, installed, uid)
		left := expect.Must(installed.Kubernetes.CoreV1().ConfigMaps(storage).List(t.Context(), metav1.ListOptions{LabelSelector: "storage.mcs-apiserver.io/resource"}))(t)
		if len(left.Items) != 0 {
			t.Errorf("%d ConfigMaps survived the namespace", len(left.Items))
		}
	})
}
