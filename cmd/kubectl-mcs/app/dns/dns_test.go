// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/clustertest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/coredns"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/expect"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/podresolver"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

// role is the name of the ClusterRole that is granted.
const role = "mcs-apiserver:dns:kube-system:dns-account"

const plain = ".:53 {\n    kubernetes cluster.local\n    reload\n}\n"

// fakeDNS is a cluster with CoreDNS, whose Pods answer according to the Corefile.
type fakeDNS struct {
	*cluster.Cluster
	client *kubernetesfake.Clientset
	// asked are the names that Pods were asked for.
	asked []string
	// unsynced is true if CoreDNS cannot read ServiceImports, and stuck if it does not
	// load another Corefile, in which case serving says whether it serves the zone.
	unsynced, stuck, serving bool
	refuse                   error
	metrics                  string
	lock                     sync.Mutex
}

func newFake(t *testing.T, corefile string, changes ...func(*appsv1.Deployment, *corev1.ConfigMap)) *fakeDNS {
	t.Helper()
	labels := map[string]string{"k8s-app": "kube-dns"}
	meta := metav1.ObjectMeta{Namespace: "kube-system", Name: "coredns"}
	deployment := &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}}}
	deployment.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
		ServiceAccountName: "dns-account",
		Containers: []corev1.Container{{
			Name: "coredns", Image: "coredns/coredns:1.13.0", Args: []string{"-conf", "/etc/coredns/Corefile"},
			VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/coredns"}},
		}},
		Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "coredns"}}}}},
	}}
	deployment.Status.UpdatedReplicas, deployment.Status.Replicas = 1, 1
	configMap := &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"Corefile": corefile, "other": "x"}}
	configMap.ResourceVersion = "7"
	for _, change := range changes {
		change(deployment, configMap)
	}
	f := &fakeDNS{Cluster: clustertest.NewCluster(clustertest.NewImport())}
	ready := corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	ports := []corev1.ServicePort{{Port: 53, TargetPort: intstr.FromInt32(53)}}
	f.client = kubernetesfake.NewClientset(deployment, configMap,
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-dns"}, Spec: corev1.ServiceSpec{Selector: labels, Ports: ports}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "coredns-1", Labels: labels}, Status: ready},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "coredns-2", Labels: labels}, Status: ready},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "coredns-lost", Labels: labels}, Status: corev1.PodStatus{Phase: corev1.PodRunning}},
	)
	f.client.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview)
		if review.Spec.User != "system:serviceaccount:kube-system:dns-account" {
			t.Errorf("access of %q was reviewed", review.Spec.User)
		}
		// The fake client is locked.
		_, err := f.client.Tracker().Get(rbacv1.SchemeGroupVersion.WithResource("clusterrolebindings"), "", role)
		review.Status.Allowed = err == nil
		return true, review, nil
	})
	f.Kubernetes = f.client
	return f
}

func (f *fakeDNS) corefile(ctx context.Context) string {
	configMap, err := f.client.CoreV1().ConfigMaps("kube-system").Get(ctx, "coredns", metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	return configMap.Data["Corefile"]
}

func (f *fakeDNS) Ask(ctx context.Context, namespace, pod, port, name string, kind dnsmessage.Type) (podresolver.Answer, error) {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.asked = append(f.asked, namespace+"/"+pod+":"+port+" "+name)
	if f.refuse != nil {
		return podresolver.Answer{}, f.refuse
	}
	if pod == "coredns-lost" {
		<-ctx.Done()
		return podresolver.Answer{}, ctx.Err()
	}
	serving := strings.Contains(f.corefile(ctx), "multicluster")
	if f.stuck {
		serving = f.serving
	}
	if !serving {
		return podresolver.Answer{Code: dnsmessage.RCodeRefused}, nil
	}
	switch {
	case kind == dnsmessage.TypeTXT:
		return podresolver.Answer{Data: []string{"1.1.0"}}, nil
	case f.unsynced:
		return podresolver.Answer{Code: dnsmessage.RCodeServerFailure}, nil
	case name == "web.shop.svc.clusterset.local":
		return podresolver.Answer{Data: []string{"10.0.0.7"}}, nil
	}
	return podresolver.Answer{Code: dnsmessage.RCodeNameError}, nil
}

func (f *fakeDNS) Get(_ context.Context, _, _, port, path string) ([]byte, error) {
	if port != "9153" || path != "/metrics" || f.metrics == "" {
		return nil, errors.New("connection refused")
	}
	return []byte(f.metrics), nil
}

// run runs a command on the fake cluster.
func (f *fakeDNS) run(t *testing.T, do func(*options, context.Context, *cluster.Cluster) error, changes ...func(*options)) (string, error) {
	t.Helper()
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	factory := cluster.NewFactory(streams)
	factory.Changed = func(string) bool { return false }
	o := &options{Factory: factory, yes: true, timeout: defaultTimeout, pods: f}
	for _, change := range changes {
		change(o)
	}
	err := do(o, t.Context(), f.Cluster)
	return out.String(), err
}

// writes are all changes of the cluster.
func (f *fakeDNS) writes() []string {
	var writes []string
	for _, action := range f.client.Actions() {
		if verb := action.GetVerb(); verb != "get" && verb != "list" && action.GetResource().Resource != "subjectaccessreviews" {
			writes = append(writes, verb+" "+action.GetResource().Resource)
		}
	}
	return writes
}

// R377, R381, R382, R383
func TestEnableAndDisable(t *testing.T) {
	f := newFake(t, plain)
	out, err := f.run(t, (*options).enable)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	expect.Text(t, `
Plan:
  east: let ServiceAccount kube-system/dns-account list and watch ServiceImports (ClusterRole mcs-apiserver:dns:kube-system:dns-account)
  east: add a server block for clusterset.local to key Corefile of ConfigMap kube-system/coredns

Server block:
  clusterset.local:53 {
      errors
      kubernetes clusterset.local {
          multicluster clusterset.local
          noendpoints
      }
  }

✓ east: let ServiceAccount kube-system/dns-account list and watch ServiceImports (ClusterRole mcs-apiserver:dns:kube-system:dns-account)
✓ east: add a server block for clusterset.local to key Corefile of ConfigMap kube-system/coredns
✓ wait until CoreDNS serves clusterset.local
DNS of the ClusterSet is enabled in the cluster of context "east".
`, out)
	if corefile := f.corefile(t.Context()); !strings.HasPrefix(corefile, plain) || !strings.Contains(corefile, "multicluster") {
		t.Errorf("unexpected Corefile:\n%s", corefile)
	}
	out, err = f.run(t, (*options).check)
	if err != nil || !strings.Contains(out, "✓ Pod coredns-2 serves clusterset.local: web.shop.svc.clusterset.local is 10.0.0.7") {
		t.Errorf("got %v:\n%s", err, out)
	}
	before := len(f.writes())
	if out, err = f.run(t, (*options).enable); err != nil || len(f.writes()) != before || strings.Contains(out, "Plan:") {
		t.Errorf("enabling again changed something: %v\n%s", err, out)
	}
	out, err = f.run(t, (*options).disable)
	if err != nil {
		t.Fatal(err)
	}
	expect.Text(t, `
Plan:
  east: remove the server block for clusterset.local from key Corefile of ConfigMap kube-system/coredns
  east: wait until CoreDNS does not serve clusterset.local
  east: revoke the permission to read ServiceImports (ClusterRole mcs-apiserver:dns:kube-system:dns-account)

✓ east: remove the server block for clusterset.local from key Corefile of ConfigMap kube-system/coredns
✓ east: wait until CoreDNS does not serve clusterset.local
✓ east: revoke the permission to read ServiceImports (ClusterRole mcs-apiserver:dns:kube-system:dns-account)
DNS of the ClusterSet is disabled in the cluster of context "east".
`, out)
	expect.Text(t, plain, f.corefile(t.Context()))
	before = len(f.writes())
	if out, err = f.run(t, (*options).disable); err != nil || len(f.writes()) != before || !strings.Contains(out, "is not enabled") {
		t.Errorf("disabling again changed something: %v\n%s", err, out)
	}
}

func TestNothingIsChangedWithoutConfirmation(t *testing.T) {
	for name, change := range map[string]func(*options){"dry run": func(o *options) { o.dryRun = true }, "not confirmed": func(o *options) { o.yes = false }} {
		f := newFake(t, plain)
		out, _ := f.run(t, (*options).enable, change)
		if writes := f.writes(); len(writes) > 0 || !strings.Contains(out, "Plan:") {
			t.Errorf("%s: got writes %q:\n%s", name, writes, out)
		}
	}
}

// R380, R381
func TestRefusals(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*appsv1.Deployment, *corev1.ConfigMap)
		err    string
		out    string
	}{
		"Helm": {func(_ *appsv1.Deployment, c *corev1.ConfigMap) {
			c.Annotations = map[string]string{"meta.helm.sh/release-name": "dns", "meta.helm.sh/release-namespace": "kube-system"}
		}, `nothing was changed: ConfigMap kube-system/coredns belongs to the Helm release "dns"`, "Helm does not merge lists"},
		"old": {func(d *appsv1.Deployment, _ *corev1.ConfigMap) {
			d.Spec.Template.Spec.Containers[0].Image = "coredns:1.11.1"
		}, "requires 1.12.2 or later", ""},
		"kube-dns": {func(d *appsv1.Deployment, _ *corev1.ConfigMap) {
			d.Spec.Template.Spec.Containers[0].Image = "k8s-dns-kube-dns:1.22"
		}, "install CoreDNS and let the cluster DNS forward clusterset.local to it", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, plain, test.change)
			out, err := f.run(t, (*options).enable)
			expect.Error(t, err, test.err)
			if !strings.Contains(out, test.out) || len(f.writes()) > 0 {
				t.Errorf("got writes %q:\n%s", f.writes(), out)
			}
		})
	}
}

// R382
func TestCoreDNSIsRestartedIfItDoesNotReload(t *testing.T) {
	f := newFake(t, strings.Replace(plain, "    reload\n", "", 1))
	out, err := f.run(t, (*options).enable)
	if err != nil || !strings.Contains(out, "restart Deployment kube-system/coredns, because it does not reload its Corefile") {
		t.Errorf("got %v:\n%s", err, out)
	}
	deployment, err := f.client.AppsV1().Deployments("kube-system").Get(t.Context(), "coredns", metav1.GetOptions{})
	if err != nil || deployment.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] == "" {
		t.Errorf("CoreDNS was not restarted (%v)", err)
	}
}

// R382
func TestConcurrentChangesAreNotOverwritten(t *testing.T) {
	f := newFake(t, plain)
	f.client.PrependReactor("patch", "configmaps", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if patch := string(action.(clienttesting.PatchAction).GetPatch()); !strings.Contains(patch, `"resourceVersion":"7"`) || strings.Contains(patch, "other") {
			t.Errorf("unexpected patch %s", patch)
		}
		return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "coredns", errors.New("changed"))
	})
	_, err := f.run(t, (*options).enable)
	expect.Error(t, err, "was changed by somebody else at the same time", "run the command again")
}

// R382
func TestWaitEndsWithTheReason(t *testing.T) {
	forbidden := errors.New(`pods "coredns-1" is forbidden: User "x" cannot create resource "pods/portforward"`)
	for name, test := range map[string]struct {
		change  func(*fakeDNS)
		want    []string
		atLeast time.Duration
		writes  int
	}{
		"Corefile is rejected":  {func(f *fakeDNS) { f.stuck = true }, []string{"after 3m0s", "Pod coredns-1 does not serve clusterset.local (Refused)", "Pod coredns-2", "no Pod uses the change, so that key Corefile of ConfigMap kube-system/coredns was restored", "kubectl mcs dns disable --context east --service kube-system/kube-dns"}, defaultTimeout, 4},
		"no permission to read": {func(f *fakeDNS) { f.unsynced = true }, []string{"cannot read ServiceImports (ServerFailure)", "that mcs-apiserver is available", "the changes are not undone", "dns check --context east --service kube-system/kube-dns"}, defaultTimeout, 3},
		"no permission to ask":  {func(f *fakeDNS) { f.refuse = forbidden }, []string{"nothing was changed: no Pod of Deployment kube-system/coredns could be asked", "is forbidden"}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t, plain)
				test.change(f)
				started := time.Now()
				_, err := f.run(t, (*options).enable, func(o *options) { o.service = "kube-system/kube-dns" })
				expect.Error(t, err, test.want...)
				if writes := f.writes(); len(writes) != test.writes {
					t.Errorf("got writes %q", writes)
				}
				if restored := f.corefile(t.Context()) == plain; restored == f.unsynced {
					t.Errorf("unexpected Corefile:\n%s", f.corefile(t.Context()))
				}
				if took := time.Since(started); took < test.atLeast || test.atLeast == 0 && took > 0 {
					t.Errorf("waited %s", took)
				}
			})
		})
	}
}

// R382: the Corefile is restored only if nobody else changed it meanwhile.
func TestRejectedCorefileIsNotRestoredOverOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, plain)
		f.stuck = true
		patches := 0
		f.client.PrependReactor("patch", "configmaps", func(action clienttesting.Action) (bool, runtime.Object, error) {
			patch := string(action.(clienttesting.PatchAction).GetPatch())
			if patches++; patches == 1 {
				return true, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "coredns", ResourceVersion: "8"}}, nil
			}
			if !strings.Contains(patch, `"resourceVersion":"8"`) {
				t.Errorf("unexpected patch %s", patch)
			}
			return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "coredns", errors.New("changed"))
		})
		_, err := f.run(t, (*options).enable)
		expect.Error(t, err, "does not serve clusterset.local", "could not be restored", "was changed by somebody else")
	})
}

// R404: what a command did not complete, it completes when it is repeated.
func TestPlans(t *testing.T) {
	rolledOut := func(serving, silent []string) podState {
		return podState{Pods: coredns.Pods{RolledOut: true}, serving: serving, silent: silent}
	}
	serving, silent, rolling := rolledOut([]string{"a"}, nil), rolledOut([]string{"b"}, []string{"a"}), podState{serving: []string{"b"}, silent: []string{"a"}}
	none := rolledOut(nil, []string{"a"})
	w := &coredns.Workload{Kind: "Deployment", Namespace: "kube-system", Name: "coredns"}
	for name, test := range map[string]struct {
		setup   coredns.Setup
		has     bool // the permission
		pods    podState
		enable  plan
		disable plan
	}{
		"not enabled":          {coredns.Setup{Reloads: true}, false, none, plan{grant: true, write: true, wait: true}, plan{}},
		"no reload":            {coredns.Setup{}, true, none, plan{write: true, restart: true, wait: true}, plan{wait: true, revoke: true}},
		"enabled":              {coredns.Setup{Reloads: true, Served: "x", Managed: true}, true, serving, plan{wait: true}, plan{write: true, wait: true, revoke: true}},
		"written":              {coredns.Setup{Reloads: true, Served: "x", Managed: true}, true, none, plan{wait: true}, plan{write: true, wait: true, revoke: true}},
		"written, no reload":   {coredns.Setup{Served: "x", Managed: true}, true, silent, plan{restart: true, wait: true}, plan{write: true, restart: true, wait: true, revoke: true}},
		"restarted, no reload": {coredns.Setup{Served: "x", Managed: true}, true, rolling, plan{wait: true}, plan{write: true, restart: true, wait: true, revoke: true}},
		"cannot be asked":      {coredns.Setup{Reloads: true, Served: "x", Unasked: "bind"}, false, podState{}, plan{grant: true}, plan{}},
	} {
		test.setup.Workload = w
		if got, err := planToEnable(&test.setup, test.has, test.pods); err != nil || got != test.enable {
			t.Errorf("%s: enable got %+v, %v", name, got, err)
		}
		if got, err := planToDisable(&test.setup, test.has, test.pods); test.setup.Unasked == "" && (err != nil || got != test.disable) {
			t.Errorf("%s: disable got %+v, %v", name, got, err)
		}
	}
	removed := coredns.Setup{Workload: w}
	for name, test := range map[string]struct {
		reloads, granted bool
		pods             podState
		want             plan
	}{
		"still serving":                {true, true, serving, plan{wait: true, revoke: true}},
		"still serving, no reload":     {false, true, serving, plan{restart: true, wait: true, revoke: true}},
		"still serving, rolling":       {false, false, rolling, plan{wait: true}},
		"no permission, still serving": {true, false, serving, plan{wait: true}},
		"no Pod":                       {true, true, podState{}, plan{wait: true, revoke: true}},
	} {
		removed.Reloads = test.reloads
		if got, err := planToDisable(&removed, test.granted, test.pods); err != nil || got != test.want {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}

// R403, R404: what is not certain is not changed.
func TestRefusedPlans(t *testing.T) {
	w := &coredns.Workload{Kind: "Deployment", Namespace: "kube-system", Name: "coredns"}
	silent, serving := podState{silent: []string{"a"}}, podState{serving: []string{"a"}}
	for name, test := range map[string]struct {
		plan func(*coredns.Setup, bool, podState) (plan, error)
		s    coredns.Setup
		pods podState
		want []string
	}{
		"import":        {planToEnable, coredns.Setup{Doubt: "line 1 imports x", Block: "BLOCK"}, silent, []string{"nothing was changed: line 1 imports x", "BLOCK"}},
		"bind":          {planToEnable, coredns.Setup{Unasked: "CoreDNS listens on eth0 only", Block: "BLOCK"}, podState{}, []string{"listens on eth0 only", "BLOCK"}},
		"served":        {planToEnable, coredns.Setup{Block: "BLOCK"}, serving, []string{"Pod a serves clusterset.local, but the server block was not found", "BLOCK"}},
		"no Pod":        {planToEnable, coredns.Setup{}, podState{}, []string{"nothing was changed: Deployment kube-system/coredns has no ready Pod"}},
		"not asked":     {planToEnable, coredns.Setup{}, podState{failures: []error{errors.New("refused")}}, []string{"could be asked: refused"}},
		"other port":    {planToEnable, coredns.Setup{Served: "key x", Managed: true, Misplaced: "it is for port 5353"}, silent, []string{"nothing was changed: it is for port 5353: run `kubectl mcs dns disable`"}},
		"by hand":       {planToDisable, coredns.Setup{Served: "key x", Removal: "keep the server block"}, serving, []string{"is served by key x", "keep the server block"}},
		"bind, enabled": {planToDisable, coredns.Setup{Served: "key x", Managed: true, Unasked: "CoreDNS listens on eth0 only", Removal: "remove it"}, podState{}, []string{"listens on eth0 only", "in key x, remove it"}},
		"elsewhere":     {planToDisable, coredns.Setup{Doubt: "line 1 imports x"}, serving, []string{"Pod a serves", "line 1 imports x: remove it by hand"}},
	} {
		test.s.Workload = w
		got, err := test.plan(&test.s, true, test.pods)
		if err == nil || got != (plan{}) {
			t.Errorf("%s: got %+v, %v", name, got, err)
			continue
		}
		expect.Error(t, err, test.want...)
	}
}

// R403: nobody is told to add a second server block.
func TestServedZoneIsNotAddedToTheFilesOfOthers(t *testing.T) {
	f := newFake(t, plain, func(_ *appsv1.Deployment, c *corev1.ConfigMap) {
		c.Annotations = map[string]string{"meta.helm.sh/release-name": "dns", "meta.helm.sh/release-namespace": "kube-system"}
	})
	f.stuck, f.serving = true, true
	out, err := f.run(t, (*options).enable)
	expect.Error(t, err, "Pod coredns-1 serves clusterset.local, but the server block was not found")
	if strings.Contains(out, "Helm") {
		t.Errorf("got\n%s", out)
	}
}

// R404: the server block of the cluster is not removed with the zone.
func TestZoneThatWasAddedByHandIsNotRemoved(t *testing.T) {
	f := newFake(t, ".:53 {\n kubernetes cluster.local clusterset.local {\n  multicluster clusterset.local\n }\n}\n")
	_, err := f.run(t, (*options).disable)
	expect.Error(t, err, "nothing was changed", `keep the server block ".:53" in line 1 of /etc/coredns/Corefile`, "line 3 of /etc/coredns/Corefile")
	if writes := f.writes(); len(writes) > 0 {
		t.Errorf("got writes %q", writes)
	}
}

// R404: CoreDNS keeps the permission while it may use it.
func TestPermissionIsNotRevokedWhileItIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, plain)
		if err := grant(t.Context(), f.Cluster, &coredns.Workload{Namespace: "kube-system", Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{ServiceAccountName: "dns-account"}}}); err != nil {
			t.Fatal(err)
		}
		f.stuck, f.serving = true, true
		before := len(f.writes())
		_, err := f.run(t, (*options).disable)
		expect.Error(t, err, "after 3m0s", "Pod coredns-1 serves clusterset.local")
		if writes := f.writes()[before:]; len(writes) > 0 {
			t.Errorf("got writes %q", writes)
		}
	})
}

// R381: a version that the image does not tell is that of the metrics, or of a flag.
func TestUnknownVersions(t *testing.T) {
	corefile := strings.Replace(plain, "reload", "reload\n    prometheus :9153", 1)
	const metrics = `coredns_build_info{goversion="go1.24",revision="x",version="%s"} 1`
	for name, test := range map[string]struct{ metrics, flag, want string }{
		"unknown":        {"", "", "neither the image \"registry.example/coredns:stable\" of CoreDNS nor its metrics tell its version"},
		"old":            {"1.12.1", "", "CoreDNS 1.12.1 of Deployment kube-system/coredns is too old"},
		"new":            {"1.12.2", "", ""},
		"flag":           {"", "1.13.0", ""},
		"old, by flag":   {"1.13.0", "v1.12.0", "CoreDNS 1.12.0"},
		"invalid flag":   {"1.13.0", "latest", `--coredns-version "latest": must be a version`},
		"another metric": {"x", "", "tell it with --coredns-version"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, corefile, func(d *appsv1.Deployment, _ *corev1.ConfigMap) {
				d.Spec.Template.Spec.Containers[0].Image = "registry.example/coredns:stable"
			})
			if test.metrics != "" {
				f.metrics = strings.Replace(metrics, "%s", test.metrics, 1)
			}
			_, err := f.run(t, (*options).enable, func(o *options) { o.coreDNSVersion = test.flag })
			if test.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			expect.Error(t, err, test.want)
			if writes := f.writes(); len(writes) > 0 {
				t.Errorf("got writes %q", writes)
			}
		})
	}
}

// R381: what one CoreDNS was granted is not taken from another one.
func TestPermissionsOfSeveralCoreDNS(t *testing.T) {
	f := newFake(t, plain)
	workload := func(namespace string) *coredns.Workload { return &coredns.Workload{Namespace: namespace} }
	for _, namespace := range []string{"a", "b"} {
		if err := grant(t.Context(), f.Cluster, workload(namespace)); err != nil {
			t.Fatal(err)
		}
	}
	if err := revoke(t.Context(), f.Cluster, workload("a")); err != nil {
		t.Fatal(err)
	}
	for namespace, want := range map[string]bool{"a": false, "b": true} {
		if got, err := isGranted(t.Context(), f.Cluster, workload(namespace)); err != nil || got != want {
			t.Errorf("namespace %s: got %t, %v", namespace, got, err)
		}
	}
}

// R382: a wait that ends says what was wrong before it ended.
func TestWaitKeepsTheReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &options{timeout: time.Minute}
		err := o.poll(t.Context(), func(ctx context.Context) error {
			if deadline, _ := ctx.Deadline(); time.Until(deadline) > 2*time.Second {
				return errors.New("the reason")
			}
			<-ctx.Done()
			return ctx.Err()
		})
		expect.Error(t, err, "the reason")
	})
}

// R383: one Pod that is slow does not delay others.
func TestPodsAreAskedAtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started := time.Now()
		got := forEach(strings.Split("abcdefgh", ""), func(pod string) string { time.Sleep(time.Second); return pod })
		if strings.Join(got, "") != "abcdefgh" || time.Since(started) != time.Second {
			t.Errorf("got %q after %s", got, time.Since(started))
		}
	})
}

// addNodeCache adds NodeLocal DNSCache under another name than usual.
func (f *fakeDNS) addNodeCache(t *testing.T) {
	t.Helper()
	daemonSet := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "nodelocaldns"}}
	daemonSet.Spec.Template.Spec.Containers = []corev1.Container{{Image: "registry.k8s.io/dns/k8s-dns-node-cache:1.23.1"}}
	daemonSet.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "nodelocaldns"}}}}}
	if _, err := f.client.AppsV1().DaemonSets("kube-system").Create(t.Context(), daemonSet, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.client.CoreV1().ConfigMaps("kube-system").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "nodelocaldns"}, Data: map[string]string{"Corefile": "cluster.local:53 {\n}\n"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// R406, R407
func TestWarnings(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*fakeDNS)
		limit  string
		want   string
	}{
		"none":       {func(*fakeDNS) {}, "170Mi", ""},
		"memory":     {func(*fakeDNS) {}, "64Mi", "Warning: CoreDNS has a memory limit of 64Mi;"},
		"node cache": {func(f *fakeDNS) { f.addNodeCache(t) }, "1Gi", "Warning: NodeLocal DNSCache (DaemonSet kube-system/nodelocaldns) does not forward clusterset.local to CoreDNS"},
		"no permission": {func(f *fakeDNS) {
			lists := 0
			f.client.PrependReactor("list", "daemonsets", func(clienttesting.Action) (bool, runtime.Object, error) {
				lists++
				return lists > 1, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "daemonsets"}, "", errors.New("no"))
			})
		}, "1Gi", "Warning: whether there is a NodeLocal DNSCache is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, plain, func(d *appsv1.Deployment, _ *corev1.ConfigMap) {
				d.Spec.Template.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(test.limit)}
			})
			test.change(f)
			var warnings bytes.Buffer
			if _, err := f.run(t, (*options).enable, func(o *options) {
				o.Streams.ErrOut = &warnings
			}); err != nil {
				t.Fatal(err)
			}
			if got := warnings.String(); !strings.HasPrefix(got, test.want) || test.want == "" && got != "" {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// R383, R407: that Pods do not serve a zone that is not configured is no problem of its own.
func TestCheckSaysWhatToDo(t *testing.T) {
	f := newFake(t, plain)
	f.addNodeCache(t)
	out, err := f.run(t, (*options).check, func(o *options) { o.service = "kube-system/kube-dns" })
	expect.Error(t, err, `DNS of the ClusterSet does not work in the cluster of context "east": 3 of 5 checks failed`)
	enable := "run `kubectl mcs dns enable --context east --service kube-system/kube-dns`\n"
	expect.Text(t, "✓ CoreDNS of Deployment kube-system/coredns is version 1.13.0\n"+
		"✗ the Corefile of Deployment kube-system/coredns has no server block for clusterset.local: "+enable+
		"✗ ServiceAccount kube-system/dns-account has no permission to list and watch ServiceImports: "+enable+
		"✗ NodeLocal DNSCache (DaemonSet kube-system/nodelocaldns) does not forward clusterset.local to CoreDNS: add a server block for the zone to its Corefile (ConfigMap kube-system/nodelocaldns) that equals that of cluster.local otherwise, but without the line health, which only one server block may have\n"+
		"✓ Pod coredns-lost is not ready, so that no client asks it, and was not asked: `kubectl --context east describe pods -n kube-system` shows why\n", out)
}

// R383: a check of a Corefile that is not understood is one of its Pods.
func TestCheckAsksWhereTheCorefileIsNotCertain(t *testing.T) {
	f := newFake(t, plain+"import /zones/*\n")
	f.stuck, f.serving = true, true
	out, _ := f.run(t, (*options).check)
	if !strings.Contains(out, "✓ the Corefile of Deployment kube-system/coredns may have a server block") || !strings.Contains(out, "✓ Pod coredns-1 serves clusterset.local") {
		t.Errorf("got\n%s", out)
	}
	f = newFake(t, strings.Replace(plain, "reload", "reload\n    bind 10.0.0.10", 1))
	out, err := f.run(t, (*options).check)
	expect.Error(t, err, "does not work")
	if !strings.Contains(out, "✗ Pods of Deployment kube-system/coredns cannot be asked through the Kubernetes API: CoreDNS listens on port 53 of 10.0.0.10 only") {
		t.Errorf("got\n%s", out)
	}
}

// R542: Pods that cannot be asked, and those that are being replaced, say nothing about DNS.
func TestWhoIsNotAskedIsUnknown(t *testing.T) {
	for want, f := range map[string]*fakeDNS{
		"cannot be asked":     newFake(t, strings.Replace(plain, "reload", "reload\n    bind 10.0.0.10", 1)),
		"is being rolled out": newFake(t, plain, func(d *appsv1.Deployment, _ *corev1.ConfigMap) { d.Generation = 2 }),
	} {
		_, err := f.run(t, func(o *options, ctx context.Context, c *cluster.Cluster) error {
			findings, err := o.findings(ctx, c)
			if !slices.ContainsFunc(findings, func(finding Finding) bool {
				return strings.Contains(finding.Message, want) && finding.Unknown() && !finding.OK
			}) {
				t.Errorf("%q is not unknown: %+v", want, findings)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// R383: CoreDNS has no records for imports without ports.
func TestImportThatIsAskedForHasPorts(t *testing.T) {
	without := clustertest.NewImport(func(i *multiclusterxv1beta1.ServiceImport) { i.Name, i.Spec.Ports = "a", nil })
	picked, err := pickImport(t.Context(), clustertest.NewCluster(without, clustertest.NewImport()))
	if err != nil || picked.Name != "web" {
		t.Errorf("got %v, %v", picked, err)
	}
}
