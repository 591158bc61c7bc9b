// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package outage

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apiconflict"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/crd"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
)

func expectDetached(t *testing.T) {
	t.Helper()
	if left := expect.Must(apiServices(t.Context()))(t); len(left) > 0 {
		t.Errorf("APIServices %v exist", left)
	}
}

// awaitDetachedReport waits until mcs-controller has seen that the API is detached.
// From then on it does not register the API.
func awaitDetachedReport(t *testing.T) {
	t.Helper()
	expect.Eventually(t, "readiness", func(ctx context.Context) error {
		if code, body, err := readiness(ctx); err != nil || code != http.StatusOK || !strings.Contains(body, "API is detached by ConfigMap mcs-system/mcs-apiserver-detached") {
			return fmt.Errorf("%d %s %w", code, body, err)
		}
		return nil
	})
}

// R180
func TestDetachChangesNothingUnlessItIsConfirmed(t *testing.T) {
	for args, want := range map[string]string{"": "nothing was changed", "--dry-run": "While the API is detached"} {
		output, err := run(t.Context(), t, append([]string{"mcs", "detach", "west"}, strings.Fields(args)...)...)
		if (err == nil) != (args == "--dry-run") {
			t.Errorf("detach %s: %v\n%s", args, err, output)
		}
		expect.Contains(t, output, want, "delete APIServices v1.multicluster.k8s.io, ")
	}
	if registered := expect.Must(apiServices(t.Context()))(t); len(registered) != len(installation.GroupVersions) {
		t.Errorf("only APIServices %v are left", registered)
	}
}

// R181: neither a running mcs-controller, nor one that starts, nor applying the
// manifests undoes it.
func TestDetachedAPIStaysDetached(t *testing.T) {
	detach(t)
	awaitDetachedReport(t)
	expectDetached(t)
	expect.Eventually(t, "Event", func(ctx context.Context) error {
		output, err := west().Kubectl(ctx, "describe", "deployment", "-n", installation.Namespace, "mcs-apiserver")
		if err != nil || !strings.Contains(output, "Detached") || !strings.Contains(output, "kubectl mcs attach") {
			return fmt.Errorf("%w\n%s", err, output)
		}
		return nil
	})
	expect.Contains(t, controllerLog(t), "API is detached by ConfigMap mcs-system/mcs-apiserver-detached")

	expect.NoError(t, west().StopController())
	kubectl(t, "--context", "west", "apply", "-k", filepath.Join(west().Root, "artifacts", "default"))
	expect.NoError(t, west().StartController(t.Context()))
	awaitDetachedReport(t)
	expectDetached(t)

	// One that somebody creates is deleted.
	kubectl(t, "--context", "west", "create", "-f", expect.Manifest(t, `apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.multicluster.x-k8s.io}
spec:
  {group: multicluster.x-k8s.io, version: v1beta1, service: {namespace: mcs-system, name: mcs-apiserver}, insecureSkipTLSVerify: true, groupPriorityMinimum: 1, versionPriority: 1}`))
	expect.Eventually(t, "deletion of the APIService", func(ctx context.Context) error {
		if left, err := apiServices(ctx); err != nil || len(left) > 0 {
			return fmt.Errorf("%v %w", left, err)
		}
		return nil
	})
}

// R180, R182: without any program of this project, and nothing is lost. R465: nor are CRDs served
// that were published, without any objects.
func TestDetachWorksWhileEverythingIsDown(t *testing.T) {
	ns := createNamespace(t, "detach-down").Name
	west().ExportService(t, ns, "web", []string{"10.9.0.1"})
	uid := func() string {
		export, err := west().Clientset.MulticlusterXV1beta1().ServiceExports(ns).Get(t.Context(), "web", metav1.GetOptions{})
		expect.NoError(t, err)
		return string(export.UID)
	}
	before := uid()
	stop(t)
	crds := expect.Must(dynamic.NewForConfig(expect.Must(west().Plane.AdminConfig())(t)))(t).Resource(apiconflict.CRDResource)
	for _, definition := range expect.Must(crd.Definitions())(t) {
		definition.SetLabels(apiconflict.RegisteredLabels)
		expect.Must(crds.Create(t.Context(), definition, metav1.CreateOptions{}))(t)
	}
	output := detach(t)
	expect.Contains(t, output, "✓ west: create ConfigMap", "✓ west: delete CustomResourceDefinitions "+strings.Join(apiconflict.PublishedCRDs, ", "), "✓ west: delete APIServices", "kubectl mcs attach west")
	if left := expect.Must(crds.List(t.Context(), metav1.ListOptions{}))(t); len(left.Items) > 0 {
		t.Errorf("CustomResourceDefinitions are left: %v", left.Items[0].GetName())
	}
	expectDetached(t)
	expect.Eventually(t, "discovery without the API", func(ctx context.Context) error {
		output, err := run(ctx, t, "--context", "west", "api-resources")
		if err == nil && strings.Contains(output, "multicluster") {
			err = errors.New(output)
		}
		return err
	}) // the kube-apiserver observes it later

	output, err := run(t.Context(), t, "mcs", "attach", "west", "--timeout=1s")
	if err == nil {
		t.Errorf("attach succeeded although nothing is running:\n%s", output)
	}
	expect.Contains(t, output, "does not exist, because mcs-controller is not running")
	expect.Contains(t, kubectl(t, "mcs", "detach", "west", "--yes"), "is detached")

	expect.NoError(t, west().StartController(t.Context()))
	expect.NoError(t, west().StartAPIServers())
	awaitDetachedReport(t)
	expectDetached(t)
	expect.Contains(t, kubectl(t, "mcs", "attach", "west"), "API of mcs-apiserver is available")
	expect.NoError(t, west().AwaitAvailable(t.Context()))
	if after := uid(); after != before {
		t.Errorf("ServiceExport has UID %s, had %s", after, before)
	}
}

// The documented commands for an emergency without the plugin, with mcs-controller
// running.
func TestDetachWithoutThePlugin(t *testing.T) {
	t.Cleanup(func() { attach(t) })
	shell(t, t.TempDir(), documented(t, "create configmap -n mcs-system mcs-apiserver-detached"))
	awaitDetachedReport(t)
	expectDetached(t)
}

// What detach says about other clusters: they keep the exports, withdraw the
// endpoints after the TTL, and have them again when the API is attached.
func TestOtherClustersKeepTheImportsOfADetachedCluster(t *testing.T) {
	ns := clusters.CreateNamespace(t, "detach-peer")
	west().ExportService(t, ns, "web", []string{"10.9.0.1"})
	secret := "secret/" + clusterset.MemberSecretName("west")
	kubectl(t, "--context", "east", "annotate", "-n", installation.Namespace, secret, clusterset.TTLAnnotation+"=30s")
	t.Cleanup(func() {
		if output, err := run(context.Background(), t, "--context", "east", "annotate", "-n", installation.Namespace, secret, clusterset.TTLAnnotation+"-"); err != nil {
			t.Errorf("%v\n%s", err, output)
		}
	})
	endpoints := func(want int) {
		expect.Eventually(t, fmt.Sprintf("%d imported EndpointSlices", want), func(ctx context.Context) error {
			slices, err := east().Kubernetes.DiscoveryV1().EndpointSlices(ns).List(ctx, metav1.ListOptions{LabelSelector: multicluster.SourceClusterLabel + "=west"})
			if err == nil && len(slices.Items) != want {
				err = fmt.Errorf("%d", len(slices.Items))
			}
			return err
		})
	}
	before := east().AwaitImport(t, ns, "web", "west")
	endpoints(1)
	detach(t)
	state := func(wanted clustersetv1alpha1.MemberState) {
		east().AwaitMember(t, "west", func(member *clustersetv1alpha1.Member) error {
			if member.Status.State != wanted {
				return fmt.Errorf("state %s, want %s", member.Status.State, wanted)
			}
			return nil
		})
	}
	state(clustersetv1alpha1.MemberUnavailable)
	endpoints(1)
	state(clustersetv1alpha1.MemberLost)
	endpoints(0)
	if kept := east().AwaitImport(t, ns, "web", "west"); kept.UID != before.UID {
		t.Errorf("import has UID %s, had %s", kept.UID, before.UID)
	}
	attach(t)
	state(clustersetv1alpha1.MemberConnected)
	endpoints(1)
}
