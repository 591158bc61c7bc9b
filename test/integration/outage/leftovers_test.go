// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package outage

import (
	"context"
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// awaitExports waits until the namespaces with these names have exactly these
// ServiceExports.
func awaitExports(t *testing.T, namespaces []string, want ...string) {
	t.Helper()
	expect.Eventually(t, "ServiceExports", func(ctx context.Context) error {
		list, err := west().Clientset.MulticlusterXV1beta1().ServiceExports("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		var found []string
		for _, item := range list.Items {
			if slices.Contains(namespaces, item.Namespace) {
				found = append(found, item.Namespace+"/"+item.Name)
			}
		}
		slices.Sort(found)
		if !slices.Equal(found, want) {
			return fmt.Errorf("found %v, want %v", found, want)
		}
		return nil
	})
}

// createProfile creates a ClusterProfile.
func createProfile(t *testing.T, namespace string) {
	t.Helper()
	expect.Must(west().Clientset.MulticlusterXV1alpha1().ClusterProfiles(namespace).Create(t.Context(), &v1alpha1.ClusterProfile{
		ObjectMeta: metav1.ObjectMeta{Name: "west"}, Spec: v1alpha1.ClusterProfileSpec{ClusterManager: v1alpha1.ClusterManager{Name: "example"}},
	}, metav1.CreateOptions{}))(t)
}

// awaitProfiles waits until exactly these of the namespaces have ClusterProfiles.
func awaitProfiles(t *testing.T, namespaces []string, want ...string) {
	t.Helper()
	expect.Eventually(t, "ClusterProfiles", func(ctx context.Context) error {
		list, err := west().Clientset.MulticlusterXV1alpha1().ClusterProfiles("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		var found []string
		for _, item := range list.Items {
			if slices.Contains(namespaces, item.Namespace) {
				found = append(found, item.Namespace)
			}
		}
		slices.Sort(found)
		if !slices.Equal(found, want) {
			return fmt.Errorf("found in %v, want %v", found, want)
		}
		return nil
	})
}

// R184, R185, R456: whether mcs-apiserver was running in the meantime or not.
func TestExportsOfNamespacesDeletedWhileDetachedAreDeleted(t *testing.T) {
	for name, down := range map[string]bool{"running": false, "down": true} {
		t.Run(name, func(t *testing.T) {
			names := []string{"gone-" + name, "again-" + name, "kept-" + name}
			for _, ns := range names {
				createNamespace(t, ns)
				west().ExportService(t, ns, "web", []string{"10.9.0.1"})
				createProfile(t, ns)
			}
			if down {
				stop(t)
			}
			detach(t)
			for _, ns := range names[:2] {
				kubectl(t, "--context", "west", "delete", "namespace", ns, "--wait=false")
			}
			awaitNoNamespace(t, names[0])
			awaitNoNamespace(t, names[1])
			createNamespace(t, names[1])
			if down {
				expectKeptWhileAccepted(t, names)
			}
			attach(t)
			awaitExports(t, names, "kept-"+name+"/web")
			awaitProfiles(t, []string{names[0], names[2]}, names[2]) // the second existed again, perhaps before it was missed
			// An export of the new namespace is no leftover.
			west().ExportService(t, names[1], "web", []string{"10.9.0.1"})
			west().APIServers[0].Kill()
			attach(t)
			awaitExports(t, names, "again-"+name+"/web", "kept-"+name+"/web")
		})
	}
}

// expectKeptWhileAccepted starts mcs-apiserver with --accept-storage for a while: namespaces
// may be restored later than their ServiceExports.
func expectKeptWhileAccepted(t *testing.T, namespaces []string) {
	t.Helper()
	west().APIServerFlags = []string{"--accept-storage"}
	defer func() { west().APIServerFlags = nil }()
	attach(t)
	west().AwaitImport(t, "kept-down", "web", "west") // leftovers are deleted as early as that
	awaitExports(t, namespaces, "again-down/web", "gone-down/web", "kept-down/web")
	west().APIServers[0].Kill()
}

// A finalizer of a leftover is respected. Its owner can remove it once the namespace
// exists again, because admission refuses updates in missing namespaces.
func TestFinalizersOfLeftoversAreRespected(t *testing.T) {
	ns := createNamespace(t, "finalized").Name
	west().ExportService(t, ns, "web", []string{"10.9.0.1"})
	const finalize, finalized = `{"metadata":{"finalizers":["example.com/held"]}}`, `{"metadata":{"finalizers":null}}`
	patch := func(patch string) (string, error) {
		return run(t.Context(), t, "--context", "west", "patch", "serviceexport", "-n", ns, "web", "--type=merge", "-p", patch)
	}
	if output, err := patch(finalize); err != nil {
		t.Fatal(output)
	}
	detach(t)
	kubectl(t, "--context", "west", "delete", "namespace", ns, "--wait=false")
	awaitNoNamespace(t, ns)
	attach(t)
	expect.Eventually(t, "deletion of the export", func(ctx context.Context) error {
		export, err := west().Clientset.MulticlusterXV1beta1().ServiceExports(ns).Get(ctx, "web", metav1.GetOptions{})
		if err == nil && export.DeletionTimestamp == nil {
			err = fmt.Errorf("no deletionTimestamp")
		}
		return err
	})
	if output, err := patch(finalized); err == nil {
		t.Errorf("finalizer of an export in a missing namespace was removed:\n%s", output)
	}
	createNamespace(t, ns)
	if output, err := patch(finalized); err != nil {
		t.Fatal(output)
	}
	awaitExports(t, []string{ns})
}
