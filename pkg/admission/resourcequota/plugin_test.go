// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package resourcequota

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/apis/apiserver/install"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

const (
	countX = corev1.ResourceName("count/serviceexports.multicluster.x-k8s.io")
	count  = corev1.ResourceName("count/serviceexports.multicluster.k8s.io")
)

// cluster has one namespace with one quota, of which nothing is used.
type cluster struct {
	*Plugin
	client *fake.Clientset
}

func newCluster(t *testing.T, config string, hard map[corev1.ResourceName]string) *cluster {
	t.Helper()
	limits, used := corev1.ResourceList{}, corev1.ResourceList{}
	for name, limit := range hard {
		limits[name], used[name] = resource.MustParse(limit), resource.MustParse("0")
	}
	limited := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "exports", Namespace: "shop", ResourceVersion: "1"},
		Spec:       corev1.ResourceQuotaSpec{Hard: limits}, Status: corev1.ResourceQuotaStatus{Hard: limits, Used: used},
	}
	c := &cluster{client: fake.NewClientset(limited)}
	version := 1
	c.client.PrependReactor("update", "resourcequotas", func(action clienttesting.Action) (bool, runtime.Object, error) {
		version++ // which the fake does not do, and by which the plugin knows its own writes
		action.(clienttesting.UpdateAction).GetObject().(*corev1.ResourceQuota).ResourceVersion = strconv.Itoa(version)
		return false, nil, nil
	})
	factory := informers.NewSharedInformerFactory(c.client, 0)
	plugins := admission.NewPlugins()
	Register(plugins)
	if _, err := plugins.InitPlugin(PluginName, strings.NewReader(config), initializer(func(plugin *Plugin) {
		plugin.SetDrainedNotification(t.Context().Done())
		plugin.SetExternalKubeClientSet(c.client)
		plugin.SetExternalKubeInformerFactory(factory)
		plugin.SetQuotaConfiguration(Configuration())
		c.Plugin = plugin
	})); err != nil {
		t.Fatal(err)
	}
	factory.StartWithContext(t.Context())
	factory.WaitForCacheSyncWithContext(t.Context())
	t.Cleanup(factory.Shutdown)
	return c
}

type initializer func(*Plugin)

// Initialize implements admission.PluginInitializer.
func (i initializer) Initialize(plugin admission.Interface) { i(plugin.(*Plugin)) }

// create requests an object in a namespace.
func (c *cluster) create(t *testing.T, namespace, group, name, subresource string) error {
	t.Helper()
	kind := schema.GroupVersionKind{Group: group, Version: "v1alpha1", Kind: "ServiceExport"}
	object := &multicluster.ServiceExport{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: namespace}}
	return c.Validate(t.Context(), admission.NewAttributesRecord(object, nil, kind, namespace, "web",
		schema.GroupVersionResource{Group: group, Version: kind.Version, Resource: name}, subresource, admission.Create, nil, false, nil), nil)
}

// used returns the usage in the status of the quota.
func (c *cluster) used(t *testing.T) string {
	t.Helper()
	quota, err := c.client.CoreV1().ResourceQuotas("shop").Get(t.Context(), "exports", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	used := func(name corev1.ResourceName) string { quantity := quota.Status.Used[name]; return quantity.String() }
	return fmt.Sprintf("%s as %s, %s as %s", used(countX), countX, used(count), count)
}

const noConfig = `{"apiVersion": "apiserver.config.k8s.io/v1", "kind": "ResourceQuotaConfiguration"}`

// R264
func TestExportsCountInAllGroups(t *testing.T) {
	c := newCluster(t, noConfig, map[corev1.ResourceName]string{countX: "9", count: "9"})
	for _, request := range []struct{ group, resource, subresource string }{
		{"multicluster.x-k8s.io", "serviceexports", ""},
		{"multicluster.k8s.io", "serviceexports", ""},
		{"multicluster.x-k8s.io", "serviceexports", "status"},
		{"multicluster.k8s.io", "clusterclaims", ""},
		{"example.com", "serviceexports", ""},
	} {
		if err := c.create(t, "shop", request.group, request.resource, request.subresource); err != nil {
			t.Errorf("%+v: %v", request, err)
		}
	}
	if got, want := c.used(t), fmt.Sprintf("2 as %s, 2 as %s", countX, count); got != want {
		t.Errorf("quota has %s, want %s", got, want)
	}
}

// R264: an export that is refused because of one name is not counted for the other one.
func TestRefusedExportsDoNotCount(t *testing.T) {
	for name, hard := range map[string]map[corev1.ResourceName]string{
		"one group is limited more":       {countX: "9", count: "1"},
		"the other group is limited more": {countX: "1", count: "9"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, noConfig, hard)
			if err := c.create(t, "shop", "multicluster.k8s.io", "serviceexports", ""); err != nil {
				t.Fatal(err)
			}
			for _, group := range []string{"multicluster.x-k8s.io", "multicluster.k8s.io"} {
				if err := c.create(t, "shop", group, "serviceexports", ""); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "exceeded quota: exports") {
					t.Errorf("%s: got %v", group, err)
				}
			}
			if got, want := c.used(t), fmt.Sprintf("1 as %s, 1 as %s", countX, count); got != want {
				t.Errorf("quota has %s, want %s", got, want)
			}
		})
	}
}

// R455: objects of the Cluster Inventory API are counted, each kind for itself.
func TestInventoryIsLimited(t *testing.T) {
	for _, kind := range []string{"clusterprofiles", "placementdecisions"} {
		limited := corev1.ResourceName("count/" + kind + ".multicluster.x-k8s.io")
		c := newCluster(t, noConfig, map[corev1.ResourceName]string{limited: "1", countX: "9"})
		for _, request := range []struct {
			group, resource, subresource string
			refused                      bool
		}{
			{group: "multicluster.x-k8s.io", resource: kind},
			{group: "multicluster.x-k8s.io", resource: kind, refused: true},
			{group: "multicluster.x-k8s.io", resource: kind, subresource: "status"},
			{group: "multicluster.x-k8s.io", resource: "serviceexports"},
		} {
			err := c.create(t, "shop", request.group, request.resource, request.subresource)
			if (err != nil) != request.refused || err != nil && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "limited: "+string(limited)+"=1")) {
				t.Errorf("%s: %+v: %v", kind, request, err)
			}
		}
		if got, want := c.used(t), fmt.Sprintf("1 as %s, 0 as %s", countX, count); got != want {
			t.Errorf("quota has %s, want %s", got, want)
		}
	}
}

// documented returns the configuration of the plugin in the file that docs/operations.md
// contains.
func documented(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	example := regexp.MustCompile("(?s)```yaml\n(apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n.*?)```").FindSubmatch(text)
	if example == nil {
		t.Fatal("docs/operations.md has no AdmissionConfiguration")
	}
	file := filepath.Join(t.TempDir(), "admission.yaml")
	if err := os.WriteFile(file, example[1], 0o600); err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	install.Install(scheme)
	config, err := admission.ReadAdmissionConfiguration([]string{PluginName}, file, scheme)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := config.ConfigFor(PluginName)
	if err != nil {
		t.Fatal(err)
	}
	found, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	return string(found)
}

// R292: an administrator can require a quota for ServiceExports, as documented.
func TestQuotaCanBeRequired(t *testing.T) {
	c := newCluster(t, documented(t), map[corev1.ResourceName]string{countX: "1"})
	for _, group := range []string{"multicluster.x-k8s.io", "multicluster.k8s.io"} {
		if err := c.create(t, "unlimited", group, "serviceexports", ""); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "insufficient quota to consume: "+string(countX)) {
			t.Errorf("%s: got %v without a quota", group, err)
		}
	}
	if err := c.create(t, "shop", "multicluster.k8s.io", "serviceexports", ""); err != nil {
		t.Errorf("got %v with a quota", err)
	}
}
