// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package outage

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/process"
)

// world is what the uses of west share.
type world struct {
	t          *testing.T
	kubernetes kubernetes.Interface
	// phase is the number of the current phase, which distinguishes its objects.
	phase int
	// namespace has an imported service with these DNS names.
	namespace, clusterName, clusterSetName string
	// derivedBefore are the derived objects when the test started.
	derivedBefore string
	// running is a CoreDNS that was started before the outage, restarted one that was
	// started in the current phase.
	running, restarted dns

	mu sync.Mutex
	// terminating are namespaces whose deletion did not complete.
	terminating []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	const namespace = "effects"
	fleet.CreateNamespace(t, namespace, west())
	west().ExportService(t, namespace, "web", []string{"10.9.0.1"})
	w := &world{
		t: t, kubernetes: west().Kubernetes, namespace: namespace,
		clusterName: "web." + namespace + ".svc.cluster.local.", clusterSetName: "web." + namespace + ".svc.clusterset.local.",
	}
	expect.Eventually(t, "derived objects", func(ctx context.Context) (err error) {
		w.derivedBefore, err = derivedObjects(ctx, namespace)
		return err
	})
	w.running = startDNS(t, 5300)
	expect.Eventually(t, "DNS", func(ctx context.Context) error { return w.running.resolve(ctx, w.clusterSetName) })
	return w
}

// kubectl runs kubectl with west as its context and an empty cache.
func (w *world) kubectl(ctx context.Context, args ...string) (string, error) {
	output, err := run(ctx, w.t, append([]string{"--context", "west"}, args...)...)
	if err != nil {
		return "", fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, output)
	}
	return output, nil
}

func (w *world) otherResources(ctx context.Context) error {
	file := filepath.Join(w.t.TempDir(), "manifest.yaml")
	manifest := fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: applied, namespace: %s}\ndata: {phase: \"%d\"}\n", w.namespace, w.phase)
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"get", "all", "-n", w.namespace}, {"apply", "-f", file}, {"diff", "-f", file}, {"apply", "--server-side", "--force-conflicts", "-f", file}, {"explain", "pods"},
	} {
		if _, err := w.kubectl(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) serviceExports(ctx context.Context) error {
	_, err := w.kubectl(ctx, "get", "serviceexports", "-A")
	return err
}

func (w *world) apiResources(ctx context.Context) error {
	output, err := w.kubectl(ctx, "api-resources")
	switch {
	case err != nil:
		return err
	case !strings.Contains(output, "deployments"):
		return fmt.Errorf("deployments are missing: %s", output)
	case !strings.Contains(output, "serviceexports"):
		return errors.New("kubectl api-resources does not list serviceexports")
	}
	return nil
}

// deleteNamespace deletes a namespace with a ConfigMap. It returns why the deletion
// does not complete.
func (w *world) deleteNamespace(ctx context.Context) error {
	created, err := w.kubernetes.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "effects-"}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	content := w.kubernetes.CoreV1().ConfigMaps(created.Name)
	if _, err := content.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "content"}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := w.kubernetes.CoreV1().Namespaces().Delete(ctx, created.Name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	var failure string
	if err := eventually(ctx, func() error {
		namespace, err := w.kubernetes.CoreV1().Namespaces().Get(ctx, created.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		} else if err != nil {
			return err
		}
		for _, condition := range namespace.Status.Conditions {
			if condition.Type == corev1.NamespaceDeletionDiscoveryFailure && condition.Status == corev1.ConditionTrue {
				failure = condition.Message
				_, err := content.Get(ctx, "content", metav1.GetOptions{})
				if apierrors.IsNotFound(err) {
					return nil
				}
			}
		}
		return fmt.Errorf("%v", namespace.Status)
	}); err != nil {
		return err
	}
	if failure == "" {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.terminating = append(w.terminating, created.Name)
	return errors.New(failure)
}

func (w *world) discoverAll(context.Context) error { return w.discover(false) }

func (w *world) discoverAllLegacy(context.Context) error { return w.discover(true) }

// discover discovers all APIs as Argo CD and Helm do. An error must concern our APIs
// only.
func (w *world) discover(legacy bool) error {
	client, err := w.discovery(legacy)
	if err != nil {
		return err
	}
	preferred, errPreferred := client.ServerPreferredResources() // Argo CD
	_, all, errAll := client.ServerGroupsAndResources()          // Helm
	for _, lists := range [][]*metav1.APIResourceList{preferred, all} {
		if !slices.ContainsFunc(lists, func(list *metav1.APIResourceList) bool { return list.GroupVersion == "apps/v1" }) {
			return fmt.Errorf("apps/v1 was not discovered: %w", errors.Join(errPreferred, errAll))
		}
	}
	for _, err := range []error{errPreferred, errAll} {
		var failed *discovery.ErrGroupDiscoveryFailed
		if err != nil && !errors.As(err, &failed) {
			return fmt.Errorf("discovery failed completely: %w", err)
		}
		if failed != nil && len(failed.Groups) != 6 {
			return fmt.Errorf("other APIs failed, too: %w", err)
		}
	}
	return errors.Join(errPreferred, errAll)
}

func (w *world) discovery(legacy bool) (*discovery.DiscoveryClient, error) {
	config, err := west().Plane.AdminConfig()
	if err != nil {
		return nil, err
	}
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err == nil {
		client.UseLegacyDiscovery = legacy
	}
	return client, err
}

// discoverOne discovers an API group as controller-runtime does, and maps a kind with
// a mapper of all groups as kube-controller-manager does.
func (w *world) discoverOne(context.Context) error {
	client, err := w.discovery(false)
	if err != nil {
		return err
	}
	if _, err := client.ServerResourcesForGroupVersion("apps/v1"); err != nil {
		return err
	}
	groups, err := restmapper.GetAPIGroupResources(client)
	if err != nil {
		return err
	}
	_, err = restmapper.NewDiscoveryRESTMapper(groups).RESTMapping(schema.GroupKind{Group: "apps", Kind: "Deployment"})
	return err
}

func (w *world) openAPI(context.Context) error {
	client, err := w.discovery(false)
	if err != nil {
		return err
	}
	_, errV2 := client.OpenAPISchema()
	_, errV3 := client.OpenAPIV3().Paths()
	return errors.Join(errV2, errV3)
}

func (w *world) collectGarbage(ctx context.Context) error {
	client := w.kubernetes.CoreV1().ConfigMaps(w.namespace)
	owner, err := client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "owner-"}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	dependent, err := client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "dependent-", OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}},
	}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if err := client.Delete(ctx, owner.Name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	return eventually(ctx, func() error {
		_, err := client.Get(ctx, dependent.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("dependent was not deleted"), err)
	})
}

func (w *world) quota(ctx context.Context) error {
	client := w.kubernetes.CoreV1().ResourceQuotas(w.namespace)
	created, err := client.Create(ctx, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "quota-"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourceServices: resource.MustParse("100")}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return eventually(ctx, func() error {
		quota, err := client.Get(ctx, created.Name, metav1.GetOptions{})
		if err == nil && len(quota.Status.Used) == 0 {
			err = errors.New("use of the quota was not computed")
		}
		return err
	})
}

// autoscale waits until the autoscaler has read the scale of a Deployment. There are
// no metrics in this cluster.
func (w *world) autoscale(ctx context.Context) error {
	name := fmt.Sprintf("scaled-%d", w.phase)
	if _, err := w.kubectl(ctx, "create", "deployment", "-n", w.namespace, name, "--image=none"); err != nil {
		return err
	}
	client := w.kubernetes.AutoscalingV2().HorizontalPodAutoscalers(w.namespace)
	if _, err := client.Create(ctx, &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       autoscalingv2.HorizontalPodAutoscalerSpec{ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: name}, MaxReplicas: 3},
	}, metav1.CreateOptions{}); err != nil {
		return err
	}
	return eventually(ctx, func() error {
		autoscaler, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range autoscaler.Status.Conditions {
			if condition.Type == autoscalingv2.AbleToScale && condition.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("%v", autoscaler.Status.Conditions)
	})
}

func (w *world) derived(ctx context.Context) error {
	now, err := derivedObjects(ctx, w.namespace)
	if err == nil && now != w.derivedBefore {
		err = fmt.Errorf("%s, before: %s", now, w.derivedBefore)
	}
	return err
}

func (w *world) runningDNS(ctx context.Context) error {
	return errors.Join(w.running.resolve(ctx, w.clusterName), w.running.resolve(ctx, w.clusterSetName))
}

func (w *world) restartedDNS(ctx context.Context) error {
	return eventually(ctx, func() error { return w.restarted.resolve(ctx, w.clusterName) })
}

// restartedClusterSetDNS tries only once: CoreDNS does not answer anything before it
// has all objects, or has waited for them in vain.
func (w *world) restartedClusterSetDNS(ctx context.Context) error {
	if err := w.restartedDNS(ctx); err != nil {
		return err
	}
	return w.restarted.resolve(ctx, w.clusterSetName)
}

// dns is the port of a CoreDNS.
type dns int

// startDNS starts CoreDNS with the server blocks that docs/clustersets.md recommends,
// until the test ends.
func startDNS(t *testing.T, port dns) dns {
	t.Helper()
	const block = `%[1]s:%[2]d {
    bind 127.0.0.1
    errors
    kubernetes %[1]s {
        kubeconfig %[3]s
        ttl 1
        %[4]s
    }
}
`
	kubeconfig := west().Plane.AdminKubeconfig()
	file := filepath.Join(t.TempDir(), "Corefile")
	corefile := fmt.Sprintf(block, "cluster.local", port, kubeconfig, "") + fmt.Sprintf(block, "clusterset.local", port, kubeconfig, "multicluster clusterset.local")
	expect.NoError(t, os.WriteFile(file, []byte(corefile), 0o600))
	started, err := process.Start(process.Command{
		Name: "coredns", Path: filepath.Join(west().Plane.Bin, "coredns"), Args: []string{"-conf", file},
		Log: filepath.Join(west().Dir, fmt.Sprintf("coredns-%d.log", port)),
	})
	expect.NoError(t, err)
	t.Cleanup(started.Kill)
	return port
}

// resolve returns an error unless a name has an address.
func (d dns) resolve(ctx context.Context, name string) error {
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", fmt.Sprintf("127.0.0.1:%d", d))
	}}
	_, err := resolver.LookupHost(ctx, name)
	return err
}

// eventually is expect.Eventually for goroutines: it returns the last error of a check
// that does not pass in time.
func eventually(ctx context.Context, check func() error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, expect.Patience, true, func(context.Context) (bool, error) {
		last = check()
		return last == nil, nil
	})
	return errors.Join(err, last)
}
