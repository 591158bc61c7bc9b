// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package coredns

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/corefile"
)

const plain = ".:53 {\n    kubernetes cluster.local\n    reload\n}\n"

// newWorkload returns CoreDNS as kubeadm deploys it.
func newWorkload(changes ...func(*corev1.PodSpec)) *Workload {
	w := &Workload{Kind: "Deployment", Namespace: "kube-system", Name: "coredns"}
	w.Template.Spec = corev1.PodSpec{
		ServiceAccountName: "coredns",
		Containers: []corev1.Container{{
			Name: "coredns", Image: "registry.k8s.io/coredns/coredns:v1.12.2", Args: []string{"-conf", "/etc/coredns/Corefile"},
			Ports:        []corev1.ContainerPort{{Name: "dns", ContainerPort: 53}, {Name: "other", ContainerPort: 8053}},
			VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/coredns"}},
		}},
		Volumes: []corev1.Volume{configVolume("config", "coredns", corev1.KeyToPath{Key: "Corefile", Path: "Corefile"})},
	}
	for _, change := range changes {
		change(&w.Template.Spec)
	}
	return w
}

// newService returns the Service of the cluster DNS.
func newService(port any) *corev1.Service {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-dns"}}
	target := intstr.FromInt32(53)
	switch port := port.(type) {
	case int:
		target = intstr.FromInt32(int32(port)) //nolint:gosec // a port
	case string:
		target = intstr.FromString(port)
	}
	service.Spec.Ports = []corev1.ServicePort{{Port: 9153}, {Port: 53, TargetPort: target}}
	return service
}

func configVolume(volume, configMap string, items ...corev1.KeyToPath) corev1.Volume {
	return corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: configMap}, Items: items}}}
}

// custom mounts another ConfigMap, as AKS, k3s and Gardener do.
func custom(spec *corev1.PodSpec) {
	spec.Volumes = append(spec.Volumes, configVolume("custom", "coredns-custom"))
	spec.Containers[0].VolumeMounts = append(spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "custom", MountPath: "/etc/coredns/custom/"})
}

func configMap(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}, Data: data}
}

func byName(configMaps ...*corev1.ConfigMap) map[string]*corev1.ConfigMap {
	result := map[string]*corev1.ConfigMap{}
	for _, c := range configMaps {
		result[c.Name] = c
	}
	return result
}

func corefileOf(text string) *corev1.ConfigMap {
	return configMap("coredns", map[string]string{"Corefile": text})
}

// R379, R380: which key is changed, or to whom it belongs.
func TestTargets(t *testing.T) {
	const imports = plain + "import custom/*.server\n"
	k3s := corefileOf(strings.ReplaceAll(imports, "custom/", "/etc/coredns/custom/"))
	k3s.Annotations = map[string]string{"objectset.rio.cattle.io/owner-name": "coredns"}
	aks := corefileOf(imports)
	aks.Labels = map[string]string{"addonmanager.kubernetes.io/mode": "Reconcile"}
	const ownBlock = "clusterset.local:53 {\n kubernetes clusterset.local {\n  multicluster clusterset.local\n }\n}\n"
	added, err := corefile.Add("", ownBlock)
	if err != nil {
		t.Fatal(err)
	}
	addedToCorefile, err := corefile.Add(imports, ownBlock)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		workload            *Workload
		configMaps          map[string]*corev1.ConfigMap
		target, owner, zone string
		managed             bool
	}{
		"kubeadm": {newWorkload(), byName(corefileOf(plain)), "key Corefile of ConfigMap kube-system/coredns", "", "", false},
		"other key and name": {newWorkload(func(spec *corev1.PodSpec) {
			spec.Containers[0].Args = []string{"-conf=/etc/coredns/Corefile"}
			spec.Volumes = []corev1.Volume{configVolume("config", "dns", corev1.KeyToPath{Key: "primary", Path: "Corefile"})}
		}), byName(configMap("dns", map[string]string{"primary": plain, "Corefile": "other"})), "key primary of ConfigMap kube-system/dns", "", "", false},
		"AKS":                 {newWorkload(custom), byName(aks, configMap("coredns-custom", nil)), "key mcs-apiserver.server of ConfigMap kube-system/coredns-custom", "", "", false},
		"k3s, not customized": {newWorkload(custom), byName(k3s), "key mcs-apiserver.server of ConfigMap kube-system/coredns-custom", "", "", false},
		"k3s, enabled": {
			newWorkload(custom), byName(k3s, configMap("coredns-custom", map[string]string{"mcs-apiserver.server": added})),
			"key mcs-apiserver.server of ConfigMap kube-system/coredns-custom", "", "key mcs-apiserver.server of ConfigMap kube-system/coredns-custom", true,
		},
		"own key by hand": {
			newWorkload(custom), byName(k3s, configMap("coredns-custom", map[string]string{"mcs-apiserver.server": ownBlock})),
			"key mcs-apiserver.server of ConfigMap kube-system/coredns-custom", "", "key mcs-apiserver.server of ConfigMap kube-system/coredns-custom", false,
		},
		"enabled before the import": {
			newWorkload(custom), byName(corefileOf(addedToCorefile)),
			"key Corefile of ConfigMap kube-system/coredns", "", "key Corefile of ConfigMap kube-system/coredns", true,
		},
		"served on another port": {newWorkload(), byName(corefileOf(plain + strings.ReplaceAll(ownBlock, ":53", ":54"))), "key Corefile of ConfigMap kube-system/coredns", "", "", false},
		"served by another key": {
			newWorkload(custom), byName(k3s, configMap("coredns-custom", map[string]string{"x.server": ownBlock, "y.override": "log"})),
			"key mcs-apiserver.server of ConfigMap kube-system/coredns-custom", "", "key x.server of ConfigMap kube-system/coredns-custom", false,
		},
		"served by hand":     {newWorkload(), byName(corefileOf(plain + ownBlock)), "key Corefile of ConfigMap kube-system/coredns", "", "key Corefile of ConfigMap kube-system/coredns", false},
		"k3s without import": {newWorkload(), byName(func() *corev1.ConfigMap { c := k3s.DeepCopy(); c.Data["Corefile"] = plain; return c }()), "key Corefile of ConfigMap kube-system/coredns", `the Addon "coredns" of k3s`, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := decide(test.workload, newService(nil), test.configMaps)
			if err != nil {
				t.Fatal(err)
			}
			owner := ""
			if s.Owner != nil {
				owner = s.Owner.Name
			}
			if s.Target.String() != test.target || owner != test.owner || s.Served != test.zone || s.Managed != test.managed || !s.Reloads || s.Doubt != "" {
				t.Errorf("got target %s, owner %q, served by %q, managed %t, doubt %q", &s.Target, owner, s.Served, s.Managed, s.Doubt)
			}
		})
	}
}

// R382: a file that is mounted alone stays as it is until CoreDNS restarts.
func TestCorefileWithSubPathIsNotReloaded(t *testing.T) {
	s, err := decide(newWorkload(func(spec *corev1.PodSpec) {
		spec.Containers[0].VolumeMounts[0] = corev1.VolumeMount{Name: "config", MountPath: "/etc/coredns/Corefile", SubPath: "Corefile"}
	}), newService(nil), byName(corefileOf(plain)))
	if err != nil || s.Target.String() != "key Corefile of ConfigMap kube-system/coredns" || s.Reloads {
		t.Errorf("got %+v, %v", s, err)
	}
}

// R379: clients ask on the port and address of the cluster's server block.
func TestServerBlockListensLikeThatOfTheCluster(t *testing.T) {
	for name, test := range map[string]struct {
		port     any
		corefile string
		args     []string
		want     string
	}{
		"plain":        {nil, plain, nil, "clusterset.local:53 {\n    errors\n    kubernetes"},
		"copied":       {8053, ".:8053 {\n bind 127.0.0.1 {\n  except ::1\n }\n acl {\n  allow net 10.0.0.0/8\n  block\n }\n log\n prometheus :9153\n loadbalance\n kubernetes cluster.local\n}", nil, "clusterset.local:8053 {\n    errors\n    bind 127.0.0.1 {\n        except ::1\n    }\n    acl {\n        allow net 10.0.0.0/8\n        block\n    }\n    loadbalance\n    prometheus :9153\n    kubernetes"},
		"default port": {1053, ". {\n kubernetes cluster.local\n}", []string{"-dns.port", "1053"}, "clusterset.local:1053 {"},
		"short flag":   {1053, ". {\n kubernetes cluster.local\n}", []string{"-p=1053"}, "clusterset.local:1053 {"},
		"named port":   {"other", ".:53 {\n kubernetes other.local\n}\ncluster.local:8053 {\n kubernetes\n}", nil, "clusterset.local:8053 {"},
		"several":      {53, "tls://.:853 {\n kubernetes cluster.local\n}\n.:5353 .:53 tls://.:8853 {\n kubernetes cluster.local\n}", nil, "clusterset.local:5353 clusterset.local:53 {"},
	} {
		s, err := decide(newWorkload(func(spec *corev1.PodSpec) {
			spec.Containers[0].Args = append(spec.Containers[0].Args, test.args...)
		}), newService(test.port), byName(corefileOf(test.corefile)))
		if err != nil || !strings.HasPrefix(s.Block, test.want) || s.Doubt != "" || s.Unasked != "" {
			t.Errorf("%s: got %+v, %v, want %q", name, s, err, test.want)
		}
	}
}

// R379, R403: a cluster that is not served on the port of the Service is not changed.
func TestPortOfServiceIsServed(t *testing.T) {
	for want, test := range map[string]struct {
		port     any
		corefile string
	}{
		"has no server block with the plugin kubernetes for DNS on port 53,":   {nil, "tls://.:853 {\n kubernetes cluster.local\n}"},
		"has no server block with the plugin kubernetes for DNS on port 5353,": {5353, plain},
		"has no port 53 with a port of the container":                          {"missing", plain},
	} {
		if _, err := decide(newWorkload(), newService(test.port), byName(corefileOf(test.corefile))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q", err, want)
		}
	}
}

// R403: nothing is added to a Corefile if it is not certain what CoreDNS reads, or if
// the result cannot be checked.
func TestDoubts(t *testing.T) {
	secret := func(spec *corev1.PodSpec) {
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: "secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}}})
		spec.Containers[0].VolumeMounts = append(spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "secret", MountPath: "/etc/coredns/custom"})
	}
	immutable := corefileOf(plain)
	immutable.Immutable = ptr.To(true)
	for name, test := range map[string]struct {
		workload   *Workload
		configMaps map[string]*corev1.ConfigMap
		want       string
	}{
		"file of the image":     {newWorkload(), byName(corefileOf(plain + "import /zones/clusterset")), `line 5 of /etc/coredns/Corefile imports "/zones/clusterset", which this command cannot read`},
		"file in no ConfigMap":  {newWorkload(), byName(corefileOf(plain + "import other")), `imports "other"`},
		"Secret":                {newWorkload(secret), byName(corefileOf(plain + "import custom/*.server")), `imports "custom/*.server"`},
		"binary data":           {newWorkload(custom), byName(corefileOf(plain+"import custom/*.server"), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "coredns-custom"}, BinaryData: map[string][]byte{"x.server": {0}}}), `imports "custom/*.server"`},
		"pattern of folders":    {newWorkload(custom), byName(corefileOf(plain + "import */x.server")), `imports "*/x.server"`},
		"environment":           {newWorkload(), byName(corefileOf(plain + "{$ZONE} {\n}\n")), "depends on an environment variable"},
		"nested":                {newWorkload(custom), byName(corefileOf(plain+"import custom/*.server"), configMap("coredns-custom", map[string]string{"x.server": "import /zones/y"})), `line 1 of /etc/coredns/custom/x.server imports "/zones/y"`},
		"plugins of the server": {newWorkload(), byName(corefileOf(".:53 {\n kubernetes cluster.local\n import /plugins/*\n}")), `imports "/plugins/*"`},
		"immutable":             {newWorkload(), byName(immutable), "ConfigMap kube-system/coredns is immutable"},
		"certain":               {newWorkload(custom), byName(corefileOf(".:53 {\n kubernetes cluster.local\n import custom/*.override\n}\nimport custom/x.server\nother {\n import /plugins/*\n}"), configMap("coredns-custom", map[string]string{"x.server": "x {\n}", "y.override": "log"})), ""},
	} {
		s, err := decide(test.workload, newService(nil), test.configMaps)
		if err != nil || (s.Doubt == "") != (test.want == "") || !strings.Contains(s.Doubt, test.want) {
			t.Errorf("%s: got doubt %+v, %v, want %q", name, s, err, test.want)
		}
	}
	for bind, want := range map[string]string{
		"bind 127.0.0.1 10.0.0.10": "", "bind lo": "", "bind ::": "",
		"bind 10.0.0.10 eth0": "CoreDNS listens on port 53 of 10.0.0.10, eth0 only (plugin bind in line 2 of /etc/coredns/Corefile)",
		"bind {$POD_IP}":      "{$POD_IP} only",
	} {
		s, err := decide(newWorkload(), newService(nil), byName(corefileOf(".:53 {\n "+bind+"\n kubernetes cluster.local\n}")))
		if err != nil || (s.Unasked == "") != (want == "") || !strings.Contains(s.Unasked, want) {
			t.Errorf("%s: got %+v, %v, want %q", bind, s, err, want)
		}
	}
}

// R403: a server block that is imported by name, or by a file that is imported, is found.
func TestImportedServerBlockIsFound(t *testing.T) {
	const ownBlock = "clusterset.local {\n kubernetes clusterset.local {\n  multicluster clusterset.local\n }\n}\n"
	for text, data := range map[string]map[string]string{
		"import custom/zones": {"zones": ownBlock},
		"import custom/first": {"first": "import second", "second": ownBlock},
	} {
		s, err := decide(newWorkload(custom), newService(nil), byName(corefileOf(plain+text), configMap("coredns-custom", data)))
		if err != nil || !strings.HasSuffix(s.Served, "of ConfigMap kube-system/coredns-custom") || s.Managed || !strings.Contains(s.Removal, "remove the server block") {
			t.Errorf("%s: got %+v, %v", text, s, err)
		}
	}
}

// R382
func TestPodsThatAreNotReady(t *testing.T) {
	pod := func(name string, phase corev1.PodPhase, ready corev1.ConditionStatus) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.PodStatus{Phase: phase, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}}}
	}
	ending := pod("ending", corev1.PodRunning, corev1.ConditionTrue)
	ending.DeletionTimestamp = &metav1.Time{}
	got := sortPods([]corev1.Pod{
		pod("b", corev1.PodRunning, corev1.ConditionTrue), pod("a", corev1.PodRunning, corev1.ConditionTrue), ending, pod("failed", corev1.PodFailed, corev1.ConditionFalse),
		pod("node-lost", corev1.PodRunning, corev1.ConditionFalse), pod("pending", corev1.PodPending, corev1.ConditionFalse),
	}, true)
	if diff := cmp.Diff(Pods{Ready: []string{"a", "b"}, NotReady: []string{"node-lost", "pending"}, RolledOut: true}, got); diff != "" {
		t.Errorf("unexpected Pods (-want +got):\n%s", diff)
	}
}

// R378, R380: what cannot be changed.
func TestUnsupportedSetups(t *testing.T) {
	kubeDNS := newWorkload(func(spec *corev1.PodSpec) { spec.Containers[0].Image = "registry.k8s.io/dns/k8s-dns-kube-dns:1.22" })
	openShift := corefileOf(plain)
	openShift.OwnerReferences = []metav1.OwnerReference{{APIVersion: "operator.openshift.io/v1", Kind: "DNS", Name: "default", Controller: ptr.To(true)}}
	for name, test := range map[string]struct {
		workload   *Workload
		configMaps map[string]*corev1.ConfigMap
		want       string
	}{
		"kube-dns":       {kubeDNS, nil, "does not run CoreDNS"},
		"no ConfigMap":   {newWorkload(), nil, "does not exist"},
		"no volume":      {newWorkload(func(spec *corev1.PodSpec) { spec.Volumes = nil }), nil, "is not from a ConfigMap"},
		"OpenShift":      {newWorkload(), byName(openShift), "belongs to the DNS operator of OpenShift"},
		"no key":         {newWorkload(), byName(configMap("coredns", nil)), "does not exist"},
		"invalid":        {newWorkload(), byName(corefileOf(plain + "x {")), "cannot be read"},
		"no cluster":     {newWorkload(), byName(corefileOf("a {\n}\n")), "no server block with the plugin kubernetes"},
		"other server":   {newWorkload(), byName(corefileOf(plain + "clusterset.local {\n forward . 192.0.2.1\n}\n")), "does not serve ServiceImports: remove it"},
		"hostile bind":   {newWorkload(), byName(corefileOf(".:53 {\n bind \"eth0\n forward . 192.0.2.1\"\n kubernetes cluster.local\n}\n")), "write it without quotes"},
		"invalid import": {newWorkload(custom), byName(corefileOf(plain+"import custom/*.server"), configMap("coredns-custom", map[string]string{"x.server": "{"})), "line 1 of /etc/coredns/custom/x.server: a server block has no zone"},
	} {
		if _, err := decide(test.workload, newService(nil), test.configMaps); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got error %v, want %q", name, err, test.want)
		}
	}
}

// R380
func TestOwners(t *testing.T) {
	for want, meta := range map[string]metav1.ObjectMeta{
		"":                              {Labels: map[string]string{"addonmanager.kubernetes.io/mode": "EnsureExists", "eks.amazonaws.com/component": "coredns", "app.kubernetes.io/managed-by": Manager}},
		`the Argo CD application "dns"`: {Annotations: map[string]string{"argocd.argoproj.io/tracking-id": "dns:/ConfigMap:kube-system/coredns"}},
		`the Argo CD application "old"`: {Labels: map[string]string{"argocd.argoproj.io/instance": "old"}},
		`Flux, as part of "infra"`:      {Labels: map[string]string{"kustomize.toolkit.fluxcd.io/name": "infra"}},
		`the Helm release "coredns" in namespace "kube-system"`: {Labels: map[string]string{"app.kubernetes.io/managed-by": "Helm"}, Annotations: map[string]string{"meta.helm.sh/release-name": "coredns", "meta.helm.sh/release-namespace": "kube-system"}},
		"Helm":                                    {Labels: map[string]string{"app.kubernetes.io/managed-by": "Helm"}},
		"the EKS add-on coredns":                  {ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "eks", FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:Corefile":{}}}`)}}},
		"the addon manager of the control plane":  {Labels: map[string]string{"addonmanager.kubernetes.io/mode": "Reconcile"}},
		`DNS "default"`:                           {OwnerReferences: []metav1.OwnerReference{{Kind: "DNS", Name: "default", Controller: ptr.To(true)}}},
		"the DNS operator of OpenShift":           {OwnerReferences: []metav1.OwnerReference{{APIVersion: "operator.openshift.io/v1", Kind: "DNS", Name: "x", Controller: ptr.To(true)}}},
		"an application of kapp":                  {Labels: map[string]string{"kapp.k14s.io/app": "1700000000"}},
		`the stack "coredns" of k0s`:              {Labels: map[string]string{"k0s.k0sproject.io/stack": "coredns"}},
		"DigitalOcean Kubernetes":                 {Labels: map[string]string{"c3.doks.digitalocean.com/component": "coredns"}},
		`the Helm release "a\nb"`:                 {Annotations: map[string]string{"meta.helm.sh/release-name": "a\nb"}},
		`the Helm release "rke2-coredns" of RKE2`: {Annotations: map[string]string{"meta.helm.sh/release-name": "rke2-coredns", "meta.helm.sh/release-namespace": "kube-system"}},
		`"kops", according to its label app.kubernetes.io/managed-by`: {Labels: map[string]string{"app.kubernetes.io/managed-by": "kops"}},
	} {
		owner := ownerOf(&corev1.ConfigMap{ObjectMeta: meta})
		if owner == nil {
			owner = &Owner{Remedy: "none"}
		}
		if owner.Name != want || owner.Remedy == "" && !owner.unsupported {
			t.Errorf("got owner %+v, want %q", owner, want)
		}
	}
}

// R380: it is recognized by its namespace, too.
func TestOpenShiftNamespace(t *testing.T) {
	if owner := ownerOf(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-dns", Name: "dns-default"}}); owner == nil || !owner.unsupported {
		t.Errorf("got %+v", owner)
	}
}

// R404: a server block that was added for another port can be removed.
func TestMisplacedServerBlock(t *testing.T) {
	added, err := corefile.Add(plain, corefile.Block(Zone, []string{"5353"}, nil))
	if err != nil {
		t.Fatal(err)
	}
	s, err := decide(newWorkload(), newService(nil), byName(corefileOf(added)))
	if err != nil || !s.Managed || s.Misplaced != "the server block in line 6 of /etc/coredns/Corefile is for port 5353, but queries are sent to port 53" {
		t.Fatalf("got %+v, %v", s, err)
	}
	if text, err := s.Disabled(); err != nil || text != plain {
		t.Errorf("got %q, %v", text, err)
	}
}

// R380: what is printed does not replace what others have configured.
func TestRemediesKeepOtherValues(t *testing.T) {
	helm := func(release string) *Owner {
		return helmOwner(nil, map[string]string{"meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": "dns"})
	}
	for remedy, want := range map[string][]string{
		helm("coredns").Remedy:      {"Helm does not merge lists: copy the whole present list", "`helm get values coredns --namespace dns --all`", "    - zone: clusterset.local.\n", "multicluster clusterset.local\n        noendpoints"},
		helm("rke2-coredns").Remedy: {"HelmChartConfig kube-system/rke2-coredns", "--namespace kube-system"},
		eksRemedy:                   {"An update replaces all configuration values", "aws eks describe-addon --cluster-name", "aws eks update-addon --cluster-name"},
	} {
		for _, text := range want {
			if !strings.Contains(remedy, text) {
				t.Errorf("%q is missing in %s", text, remedy)
			}
		}
	}
}

// R381
func TestVersions(t *testing.T) {
	for image, want := range map[string]string{
		"registry.k8s.io/coredns/coredns:v1.12.1": "1.12.1 of Deployment kube-system/coredns is too old",
		"eks/coredns:v1.11.4-eksbuild.2":          "1.11.4",
		"eks/coredns:v1.12.2-eksbuild.4":          "",
		"rancher/mirrored-coredns-coredns:1.14.0": "",
		"localhost:5000/coredns":                  "",
		"coredns:latest@sha256:abc":               "",
	} {
		s, err := decide(newWorkload(func(spec *corev1.PodSpec) { spec.Containers[0].Image = image }), newService(nil), byName(corefileOf(plain)))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.CheckVersion(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", image, err, want)
		}
	}
}

// R381: vendors put other names on images.
func TestVersionOfMetrics(t *testing.T) {
	for metrics, want := range map[string]string{
		"# HELP coredns_build_info A metric\ncoredns_build_info{goversion=\"go1.24\",revision=\"x\",version=\"1.12.1\"} 1\n": "1.12.1",
		"a 1\ncoredns_build_info{version=\"1.13.0-vendor\",goversion=\"go1.24\"} 1\n":                                        "1.13.0",
		"coredns_build_info{goversion=\"1.24.0\"} 1":                                                                         "",
		"": "",
	} {
		got := ""
		if v := VersionOfMetrics([]byte(metrics)); v != nil {
			got = v.String()
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", metrics, got, want)
		}
	}
}

// R407
func TestNodeCachesForwardTheZone(t *testing.T) {
	for name, test := range map[string]struct {
		data map[string]string
		want bool
	}{
		"cluster only":     {map[string]string{"Corefile": "cluster.local:53 {\n forward . __PILLAR__CLUSTER__DNS__\n}\n.:53 {\n forward . __PILLAR__UPSTREAM__SERVERS__\n}\n"}, false},
		"zone":             {map[string]string{"Corefile.base": "clusterset.local:53 {\n forward . __PILLAR__CLUSTER__DNS__\n}\n"}, true},
		"all names":        {map[string]string{"Corefile": ".:53 {\n forward . __PILLAR__CLUSTER__DNS__ {\n  force_tcp\n }\n}\n"}, true},
		"stub domain":      {map[string]string{"stubDomains": `{"clusterset.local": ["10.0.0.53"]}`}, true},
		"other stubDomain": {map[string]string{"stubDomains": `{"example.com": ["10.0.0.53"]}`}, false},
	} {
		if got := forwards(configMap("x", test.data)); got != test.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
	for image, want := range map[string]bool{"registry.k8s.io/dns/k8s-dns-node-cache:1.23": true, "rancher/hardened-dns-node-cache:1": true, "coredns/coredns:1.13.0": false} {
		if got := newWorkload(func(spec *corev1.PodSpec) { spec.Containers[0].Image = image }).isNodeCache(); got != want {
			t.Errorf("%s: got %t", image, got)
		}
	}
}
