// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reads compares reads of ServiceImports with those of the same objects as custom
// resources in the same control plane. Its tests run alone: other load would decide their
// results.
package reads

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/mcs-api/config/crd"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterv1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/controlplane"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/netns"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/repository"
)

const (
	namespace = "reads"
	// writers is how many objects are created at the same time.
	writers = 8
	// attempts is how often a request is tried.
	attempts = 60
	// setupPatience is how long all objects may take to be computed.
	setupPatience = 30 * time.Minute
	// copiedGroup is the group of the custom resources.
	copiedGroup = "reads.example.com"
)

var (
	computed = multiclusterxv1beta1.SchemeGroupVersion.WithResource("serviceimports")
	copied   = schema.GroupVersionResource{Group: copiedGroup, Version: computed.Version, Resource: computed.Resource}
	services = corev1.SchemeGroupVersion.WithResource("services")
)

func TestMain(m *testing.M) {
	if err := netns.Enter(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// number returns a number of objects, watches or changes, which an environment variable can
// reduce for a trial. The figures of the page are those of the defaults.
func number(t *testing.T, variable string, usual int) int {
	t.Helper()
	value, ok := os.LookupEnv(variable)
	if !ok {
		return usual
	}
	return expect.Must(strconv.Atoi(value))(t)
}

// bench is a control plane with ServiceImports and copies of them.
type bench struct {
	installed *installation.Installation
	objects   int
	client    dynamic.Interface
	// direct is the configuration of a client of mcs-apiserver, and through that of one of
	// the kube-apiserver.
	direct, through *rest.Config
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{installed: install(t), objects: number(t, "READS_OBJECTS", 5000)}
	b.through = expect.Must(b.installed.Plane.AdminConfig())(t)
	b.through.QPS = -1
	b.direct = expect.Must(b.installed.APIServers[0].Config())(t)
	b.client = expect.Must(dynamic.NewForConfig(b.through))(t)
	mcs := expect.Must(versioned.NewForConfig(b.through))(t)
	for name, value := range map[string]string{multicluster.ClusterIDClaim: "east", multicluster.ClusterSetClaim: "reads"} {
		claim := &multiclusterv1.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: multiclusterv1.ClusterClaimSpec{Value: value}}
		expect.Eventually(t, "claim "+name, func(ctx context.Context) error {
			_, err := mcs.MulticlusterV1().ClusterClaims().Create(ctx, claim, metav1.CreateOptions{})
			return created(err)
		})
	}
	expect.Must(b.installed.Kubernetes.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}))(t)
	b.defineCopies(t)
	exports := mcs.MulticlusterXV1beta1().ServiceExports(namespace)
	b.each(t, func(ctx context.Context, name string) error {
		service := map[string]any{
			"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": name},
			"spec": map[string]any{"clusterIP": corev1.ClusterIPNone, "ports": []any{map[string]any{"port": int64(80)}}},
		}
		if _, err := b.client.Resource(services).Namespace(namespace).Create(ctx, &unstructured.Unstructured{Object: service}, metav1.CreateOptions{}); created(err) != nil {
			return err
		}
		_, err := exports.Create(ctx, &multiclusterxv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		return created(err)
	})
	b.awaitQuiet(t)
	b.copyAll(t)
	return b
}

func nameOf(i int) string { return fmt.Sprintf("service-%05d", i) }

// each calls a function for each name, several at a time. It calls it again if it fails: a busy
// machine may take longer to respond than the kube-apiserver waits.
func (b *bench) each(t *testing.T, do func(ctx context.Context, name string) error) {
	t.Helper()
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(writers)
	for i := range b.objects {
		group.Go(func() error {
			err := do(ctx, nameOf(i))
			for attempt := 1; err != nil && attempt < attempts && ctx.Err() == nil; attempt++ {
				time.Sleep(time.Second)
				err = do(ctx, nameOf(i))
			}
			return err
		})
	}
	expect.NoError(t, group.Wait())
}

// created returns an error unless an object was created now or before.
func created(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// defineCopies defines the custom resource: that of upstream in a group of its own, without
// a subresource, so that one request creates an object.
func (b *bench) defineCopies(t *testing.T) {
	t.Helper()
	definition := bytes.ReplaceAll(crd.ServiceImportCRD, []byte("multicluster.x-k8s.io"), []byte(copiedGroup))
	definition = bytes.ReplaceAll(definition, []byte("      subresources:\n        status: {}\n"), nil)
	file := filepath.Join(t.TempDir(), "copies.yaml")
	expect.NoError(t, os.WriteFile(file, definition, 0o600))
	for _, arguments := range [][]string{
		{"apply", "-f", file}, {"wait", "--for=condition=Established", "crd/serviceimports." + copiedGroup, "--timeout=2m"},
	} {
		if output, err := b.installed.Kubectl(t.Context(), arguments...); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
	}
}

// awaitQuiet waits until there are all ServiceImports, and they do not change any more.
func (b *bench) awaitQuiet(t *testing.T) {
	t.Helper()
	newest := ""
	since := time.Now()
	expect.Within(t, setupPatience, "all ServiceImports are computed", func(ctx context.Context) error {
		list, err := b.client.Resource(computed).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		seen := ""
		for _, item := range list.Items {
			seen = max(seen, item.GetResourceVersion())
		}
		if seen != newest {
			newest, since = seen, time.Now()
		}
		if len(list.Items) != b.objects || time.Since(since) < 10*time.Second {
			return fmt.Errorf("there are %d ServiceImports, which last changed %s ago", len(list.Items), time.Since(since).Round(time.Second))
		}
		return nil
	})
}

// copyAll creates a custom resource for each ServiceImport, with the same content. ServiceImports
// have no managed fields, so the copies have none either.
func (b *bench) copyAll(t *testing.T) {
	t.Helper()
	patch := []byte(`{"metadata":{"managedFields":[{}]}}`)
	b.each(t, func(ctx context.Context, name string) error {
		object, err := b.client.Resource(computed).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		object.SetAPIVersion(copied.GroupVersion().String())
		object.SetResourceVersion("")
		object.SetUID("")
		copies := b.client.Resource(copied).Namespace(namespace)
		if _, err := copies.Create(ctx, object, metav1.CreateOptions{}); created(err) != nil {
			return err
		}
		_, err = copies.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
}

// httpClient returns a client with connections of its own that does not decompress.
func httpClient(t *testing.T, config *rest.Config) *http.Client {
	t.Helper()
	own := rest.CopyConfig(config)
	own.DisableCompression = true
	// A function of its own keeps client-go from sharing connections between clients.
	own.Proxy = http.ProxyFromEnvironment
	transport := expect.Must(rest.TransportFor(own))(t)
	return &http.Client{Transport: transport}
}

func path(resource schema.GroupVersionResource) string {
	return "/apis/" + resource.Group + "/" + resource.Version + "/" + resource.Resource
}

// ports returns a merge patch of the ports of a Service or of a ServiceImport.
func ports(t *testing.T, port int) []byte {
	t.Helper()
	return expect.Must(json.Marshal(map[string]any{"spec": map[string]any{"ports": []any{map[string]any{"port": port, "protocol": "TCP"}}}}))(t)
}

// install installs mcs-apiserver in a control plane of its own.
func install(t *testing.T) *installation.Installation {
	t.Helper()
	root := expect.Must(repository.Root())(t)
	dir := expect.Must(os.MkdirTemp("", "mcs-reads-"))(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log("component logs are in", dir)
		} else {
			expect.NoError(t, os.RemoveAll(dir))
		}
	})
	plane := expect.Must(controlplane.Start(t.Context(), controlplane.Config{
		Bin: filepath.Join(root, "bin", "kubernetes"), Dir: filepath.Join(dir, "kubernetes"), Realistic: true,
	}))(t)
	t.Cleanup(func() { expect.NoError(t, plane.Stop()) })
	installed := expect.Must(installation.Install(t.Context(), installation.Config{Plane: plane, Root: root, Dir: dir}))(t)
	t.Cleanup(func() { expect.NoError(t, installed.Stop()) })
	return installed
}
