// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// find returns the only object of a kind as JSON, or nil.
func find(t *testing.T, rendered *Rendered, kind string) []byte {
	t.Helper()
	var found []byte
	for _, object := range rendered.Objects {
		if object["kind"] == kind {
			if found != nil {
				t.Fatalf("there are several objects of kind %s", kind)
			}
			var err error
			if found, err = json.Marshal(object); err != nil {
				t.Fatal(err)
			}
		}
	}
	return found
}

func deployment(t *testing.T, rendered *Rendered) *appsv1.Deployment {
	t.Helper()
	var found appsv1.Deployment
	decoder := json.NewDecoder(strings.NewReader(string(find(t, rendered, "Deployment"))))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&found); err != nil {
		t.Fatal(err)
	}
	return &found
}

// R352: nothing that is rendered for other namespaces names the default ones.
func TestChartInstallsIntoAnyNamespace(t *testing.T) {
	for _, object := range render(t, "fleet", "storage: {namespace: fleet-state}").Objects {
		text, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		for _, namespace := range []string{"mcs-system", "mcs-storage"} {
			if strings.Contains(string(text), namespace) {
				t.Errorf("%s names namespace %s: %s", object.Key(), namespace, text)
			}
		}
		if metadata := object["metadata"].(map[string]any); metadata["namespace"] != nil && metadata["namespace"] != "fleet" && metadata["namespace"] != "kube-system" {
			t.Errorf("%s is in another namespace", object.Key())
		}
	}
}

// R352: the names of namespaces may contain the default name of the other one.
func TestNamesOfNamespacesAreIndependent(t *testing.T) {
	texts := func(system, storage string) (found []string) {
		for _, object := range render(t, system, "storage: {namespace: "+storage+"}").Objects {
			text, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, strings.NewReplacer("namespace-one", "my-mcs-storage", "namespace-two", "my-mcs-system").Replace(string(text)))
		}
		slices.Sort(found)
		return found
	}
	if diff := cmp.Diff(texts("namespace-one", "namespace-two"), texts("my-mcs-storage", "my-mcs-system")); diff != "" {
		t.Error(diff)
	}
}

// R352: mcs-apiserver refuses flags of a storage that it does not use; mcs-controller always
// knows the namespace.
func TestStorageNamespaceIsAFlagOfStorageInTheClusterOnly(t *testing.T) {
	const flag = "--storage-namespace=fleet-state"
	for storage, want := range map[string]bool{
		"mode: cluster":  true,
		"mode: embedded": false,
		"mode: etcd, etcd: {servers: [" + etcdServers + "]}": false,
		"mode: embedded, migrateFrom: cluster":               true,
	} {
		containers := deployment(t, render(t, "mcs-system", "storage: {namespace: fleet-state, "+storage+"}")).Spec.Template.Spec.Containers
		if got := slices.Contains(containers[0].Args, flag); got != want {
			t.Errorf("%s: mcs-apiserver has %s: %t, want %t", storage, flag, got, want)
		}
		if !slices.Contains(containers[1].Args, flag) {
			t.Errorf("%s: mcs-controller has flags %q", storage, containers[1].Args)
		}
	}
}

// R353: wrong values are refused, with a message that names the value and says what is
// wrong.
func TestWrongValuesAreRefused(t *testing.T) {
	for values, want := range map[string]string{
		"replica: 3":                                                "additional properties 'replica' not allowed",
		"apiserver: {args: [--v=4]}":                                "at '/apiserver': additional properties 'args' not allowed",
		"replicas: 0":                                               "at '/replicas': minimum: got 0, want 1",
		"replicas: two":                                             "at '/replicas': got string, want integer",
		"storage: {mode: configmaps}":                               "at '/storage/mode': value must be one of 'cluster', 'etcd', 'embedded'",
		"storage: {mode: etcd}":                                     "storage.mode etcd requires the URLs of the etcd in storage.etcd.servers",
		"storage: {migrateFrom: etcd}":                              "storage.migrateFrom etcd requires the URLs of the etcd in storage.etcd.servers",
		"storage: {migrateFrom: cluster}":                           "storage.migrateFrom cluster is storage.mode: set it to the storage that the cluster used until now",
		"storage: {migrateFrom: configmaps}":                        "at '/storage/migrateFrom': value must be one of",
		"apiserver: {extraArgs: [--migrate-from=cluster]}":          "apiserver.extraArgs must not contain --migrate-from: set storage.migrateFrom instead",
		"storage: {namespace: mcs-system}":                          `storage.namespace "mcs-system" is the namespace of the release`,
		"storage: {namespace: No_Name}":                             "at '/storage/namespace': 'No_Name' does not match pattern",
		"storage: {namespace: kube-system}":                         "at '/storage/namespace': 'not' failed",
		"clusterSetIPRange: [243.0.0.0/33]":                         "at '/clusterSetIPRange/0': '243.0.0.0/33' does not match pattern",
		"clusterSetIPRange: [243.0.0/8]":                            "at '/clusterSetIPRange/0': '243.0.0/8' does not match pattern",
		"clusterSetIPRange: ['fd00::/129']":                         "at '/clusterSetIPRange/0': 'fd00::/129' does not match pattern",
		"image: {registry: 'https://registry.example'}":             "at '/image/registry': 'https://registry.example' does not match pattern",
		"hostNetwork: yes please":                                   "at '/hostNetwork': got string, want boolean",
		"ports: {https: 70000}":                                     "at '/ports/https': maximum: got 70,000, want 65,535",
		"ports: {https: 8443}":                                      "ports.https 8443, ports.health 8081 and ports.metrics 8443 must differ",
		"certManager: {enabled: true}":                              "certManager.enabled requires the name of an issuer in certManager.issuerRef.name",
		"priorityClass: {name: '', quota: true}":                    "priorityClass.quota requires priorityClass.name",
		"apiserver: {extraArgs: [v=4]}":                             "at '/apiserver/extraArgs/0': 'v=4' does not match pattern",
		"apiserver: {extraArgs: [--storage=etcd]}":                  "apiserver.extraArgs must not contain --storage: set storage.mode instead",
		"controller: {extraArgs: [--storage-namespace=]}":           "controller.extraArgs must not contain --storage-namespace: set storage.namespace instead",
		"controller: {extraArgs: [--leader-elect-resource-name=x]}": "permissions and policies of the chart contain the default name",
		"apiserver: {resources: {limits: {memory: 1e9}}}":           "at '/apiserver/resources/limits/memory'",
		"clusterSetIPRange: []":                                     "at '/clusterSetIPRange': minItems: got 0, want 1",
		"image: {pullPolicy: Sometimes}":                            "at '/image/pullPolicy': value must be one of",
		"image: {pullSecrets: [registry]}":                          "at '/image/pullSecrets/0': got string, want object",
	} {
		if _, err := Render(source, "mcs-system", values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", values, err, want)
		}
	}
}

// Patterns refuse nothing that is right.
func TestRightValuesAreNotRefused(t *testing.T) {
	for _, values := range []string{
		"clusterSetIPRange: [243.0.0.0/8, 'fd00:243::/48']", "clusterSetIPRange: ['::/0']", "clusterSetIPRange: [10.255.249.0/32, 'FD00::1.2.3.0/120']", "storage: {namespace: default-storage}", "storage: {migrateFrom: null}",
		"image: {registry: ''}", "image: {registry: registry.example.com/team}", "image: {registry: 'localhost:5000'}", "image: {registry: 'registry.example.com:5000/team/mcs'}", "image: {registry: '[fd00::1]:5000/mcs'}",
	} {
		if _, err := Render(source, "mcs-system", values); err != nil {
			t.Errorf("%s: %v", values, err)
		}
	}
}

// R353: permissions and policies are not left out silently.
func TestChartWithoutManifestsIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(source)); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "files")); err != nil {
		t.Fatal(err)
	}
	if _, err := Render(dir, "mcs-system", ""); err == nil || !strings.Contains(err.Error(), "the directory files of the chart is missing") {
		t.Errorf("got %v", err)
	}
}

// variants are values of which each changes the Pod.
var variants = []string{
	"",
	"storage: {mode: embedded}",
	"storage: {mode: etcd, etcd: {servers: [" + etcdServers + "]}}",
	"storage: {mode: etcd, migrateFrom: embedded, etcd: {servers: [" + etcdServers + "]}}",
	"certManager: {enabled: true, issuerRef: {name: ca}}",
	"hostNetwork: true",
	"apiserver: {resources: null}\ncontroller: {resources: {limits: null}}",
}

// R354: the Pods conform to the Pod security standard restricted, and with hostNetwork they
// violate nothing but what this implies.
func TestPodsConformToPodSecurityRestricted(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	restricted := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	for _, values := range variants {
		pod := deployment(t, render(t, "mcs-system", values)).Spec.Template
		var violations []string
		for _, result := range evaluator.EvaluatePod(restricted, &pod.ObjectMeta, &pod.Spec) {
			if !result.Allowed {
				violations = append(violations, result.ForbiddenReason)
			}
		}
		var want []string
		if values == "hostNetwork: true" {
			want = []string{"host namespaces"}
		}
		if !slices.Equal(violations, want) {
			t.Errorf("%s: violations are %q, want %q", values, violations, want)
		}
	}
}

// R355.
func TestValuesChangeTheirFieldsOfThePod(t *testing.T) {
	spec := deployment(t, render(t, "mcs-system", `
replicas: 3
image: {registry: registry.example.com/team/, tag: v2, pullPolicy: Always, pullSecrets: [{name: pull}]}
apiserver: {extraArgs: [--lost-member-policy=Keep], resources: {limits: {memory: 2Gi}}}
controller: {image: "other/controller@sha256:0123", extraArgs: [--cluster-id=east], resources: {limits: {memory: 100Mi}}}
clusterSetIPRange: [242.0.0.0/8, "fd00:243::/32"]
priorityClass: {name: ""}
nodeSelector: {kubernetes.io/os: linux}
tolerations: [{key: critical, operator: Exists}]
affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}}
`)).Spec
	pod := spec.Template.Spec
	apiserver, controller := pod.Containers[0], pod.Containers[1]
	memory := func(container corev1.Container) string {
		return container.Env[slices.IndexFunc(container.Env, func(e corev1.EnvVar) bool { return e.Name == "GOMEMLIMIT" })].Value
	}
	for name, ok := range map[string]bool{
		"replicas":                *spec.Replicas == 3,
		"image.registry":          apiserver.Image == "registry.example.com/team/mcs-apiserver:v2",
		"controller.image":        controller.Image == "other/controller@sha256:0123",
		"image.pullPolicy":        apiserver.ImagePullPolicy == corev1.PullAlways && controller.ImagePullPolicy == corev1.PullAlways,
		"image.pullSecrets":       len(pod.ImagePullSecrets) == 1 && pod.ImagePullSecrets[0].Name == "pull",
		"apiserver.extraArgs":     apiserver.Args[len(apiserver.Args)-1] == "--lost-member-policy=Keep",
		"controller.extraArgs":    controller.Args[len(controller.Args)-1] == "--cluster-id=east",
		"clusterSetIPRange":       slices.Contains(apiserver.Args, "--clusterset-ip-range=242.0.0.0/8,fd00:243::/32"),
		"apiserver.resources":     memory(apiserver) == "1840MiB",
		"controller.resources":    memory(controller) == "90MiB",
		"requests keep defaults":  apiserver.Resources.Requests.Memory().String() == "256Mi",
		"priorityClass.name":      pod.PriorityClassName == "",
		"nodeSelector":            pod.NodeSelector["kubernetes.io/os"] == "linux",
		"tolerations":             len(pod.Tolerations) == 1 && pod.Tolerations[0].Key == "critical",
		"affinity":                pod.Affinity != nil && pod.Affinity.NodeAffinity != nil,
		"no host network":         !pod.HostNetwork,
		"ports of mcs-controller": !slices.ContainsFunc(controller.Args, func(arg string) bool { return strings.HasPrefix(arg, "--apiserver") }),
	} {
		if !ok {
			t.Errorf("%s has no effect: %+v", name, spec)
		}
	}
}

// R355: the policy that reserves the ClusterSet IP range agrees with the flag.
func TestPolicyReservesTheClusterSetIPRange(t *testing.T) {
	for _, object := range render(t, "mcs-system", "clusterSetIPRange: [242.0.0.0/8, 'fd00:243::/32']").Objects {
		if text, _ := json.Marshal(object); object.Key() == "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy <nil>/clusterset-ip.mcs-apiserver.io" {
			if !strings.Contains(string(text), `"['242.0.0.0/8', 'fd00:243::/32']"`) || strings.Contains(string(text), "243.0.0.0/8") {
				t.Errorf("policy is %s", text)
			}
			return
		}
	}
	t.Error("there is no policy")
}

// R355: with hostNetwork, ports can be chosen, and replicas can be replaced where every node
// has one.
func TestHostNetwork(t *testing.T) {
	rendered := render(t, "mcs-system", "hostNetwork: true\nports: {https: 16443, health: 18081, metrics: 18443}")
	spec := deployment(t, rendered).Spec
	pod := spec.Template.Spec
	apiserver, controller := pod.Containers[0], pod.Containers[1]
	if !pod.HostNetwork || apiserver.Ports[0].ContainerPort != 16443 || !slices.Contains(apiserver.Args, "--secure-port=16443") {
		t.Errorf("host network %v, ports %v, flags %q", pod.HostNetwork, apiserver.Ports, apiserver.Args)
	}
	if want := []string{"--serving-cert-dir=/run/mcs-apiserver", "--apiserver=https://127.0.0.1:16443", "--health-address=:18081", "--metrics-address=:18443"}; !slices.Equal(controller.Args, want) {
		t.Errorf("flags of mcs-controller are %q", controller.Args)
	}
	if update := spec.Strategy.RollingUpdate; update.MaxSurge.IntValue() != 0 || update.MaxUnavailable.IntValue() != 1 {
		t.Errorf("strategy is %+v", spec.Strategy)
	}
	if find(t, rendered, "NetworkPolicy") != nil {
		t.Error("there is a NetworkPolicy, which has no effect")
	}
	if !strings.Contains(rendered.Notes, "kubectl label namespace mcs-system --overwrite pod-security.kubernetes.io/enforce=privileged") {
		t.Errorf("notes do not say which Pods the namespace must allow:\n%s", rendered.Notes)
	}
}

// R355: objects that can be turned on or off.
func TestOptionalObjects(t *testing.T) {
	for _, test := range []struct{ values, kind, want string }{
		{"", "NetworkPolicy", `"metrics"`},
		{"networkPolicy: {enabled: false}", "NetworkPolicy", ""},
		{"", "PodDisruptionBudget", `"minAvailable":1`},
		{"replicas: 1", "PodDisruptionBudget", `"minAvailable":0`},
		{"podDisruptionBudget: {enabled: false}", "PodDisruptionBudget", ""},
		{"", "ResourceQuota", ""},
		{"priorityClass: {quota: true}", "ResourceQuota", `"values":["system-cluster-critical"]`},
		{"", "Certificate", ""},
		{"certManager: {enabled: true, issuerRef: {name: ca}}", "Certificate", `"issuerRef":{"group":"cert-manager.io","kind":"Issuer","name":"ca"}`},
		{"", "PersistentVolumeClaim", ""},
		{"storage: {mode: embedded, embedded: {storageClassName: fast}}", "PersistentVolumeClaim", `"storageClassName":"fast"`},
		{"storage: {mode: embedded}", "PersistentVolumeClaim", `"helm.sh/resource-policy":"keep"`},
	} {
		found := string(find(t, render(t, "mcs-system", test.values), test.kind))
		if (found == "") != (test.want == "") || !strings.Contains(found, test.want) {
			t.Errorf("%q: %s is %s, want %s", test.values, test.kind, found, test.want)
		}
	}
}

// R355: the Pod that moves objects has the flags and volumes of both storages, and no other one
// runs meanwhile. R350 compares what kustomizations do as well.
func TestObjectsAreMovedFromAnotherStorage(t *testing.T) {
	for values, want := range map[string]struct {
		flags    []string
		volumes  string
		replicas int32
	}{
		"mode: etcd, migrateFrom: cluster": {[]string{"--storage=etcd", "--migrate-from=cluster", "--storage-namespace=fleet-state"}, "serving-cert etcd", 2},
		"mode: cluster, migrateFrom: etcd": {[]string{"--storage=cluster", "--migrate-from=etcd", "--storage-namespace=fleet-state", "--etcd-servers=https://etcd:2379"}, "serving-cert etcd", 2},
		"mode: etcd, migrateFrom: embedded": {[]string{"--storage=etcd", "--migrate-from=embedded", "--data-dir=/var/lib/mcs-apiserver",
			"--etcd-servers=https://etcd:2379"}, "serving-cert etcd data", 1},
	} {
		rendered := render(t, "mcs-system", "storage: {namespace: fleet-state, etcd: {servers: [https://etcd:2379]}, "+values+"}")
		spec := deployment(t, rendered).Spec
		pod := spec.Template.Spec
		for _, flag := range want.flags {
			if !slices.Contains(pod.Containers[0].Args, flag) {
				t.Errorf("%s: flags are %q, want %s", values, pod.Containers[0].Args, flag)
			}
		}
		var volumes, mounts []string
		for _, volume := range pod.Volumes {
			volumes = append(volumes, volume.Name)
		}
		for _, mount := range pod.Containers[0].VolumeMounts {
			mounts = append(mounts, mount.Name)
		}
		if strings.Join(volumes, " ") != want.volumes || !slices.Equal(volumes, mounts) {
			t.Errorf("%s: volumes are %q, of which mcs-apiserver mounts %q, want %s", values, volumes, mounts, want.volumes)
		}
		if spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType || *spec.Replicas != want.replicas {
			t.Errorf("%s: strategy is %s with %d replicas, want Recreate with %d", values, spec.Strategy.Type, *spec.Replicas, want.replicas)
		}
		if !strings.Contains(rendered.Notes, "upgrade with storage.migrateFrom set to nothing") {
			t.Errorf("%s: notes do not say what to do next:\n%s", values, rendered.Notes)
		}
	}
}

// R355: both containers use the certificate of cert-manager, which is valid for the name by
// which they are known, and through kubectl port-forward, as the one of mcs-controller is.
func TestCertificateOfCertManager(t *testing.T) {
	rendered := render(t, "fleet", "certManager: {enabled: true, issuerRef: {name: ca, kind: ClusterIssuer}}")
	if certificate := string(find(t, rendered, "Certificate")); !strings.Contains(certificate, `"dnsNames":["mcs-apiserver.fleet.svc","localhost"]`) {
		t.Errorf("certificate is %s", certificate)
	}
	pod := deployment(t, rendered).Spec.Template.Spec
	if args := pod.Containers[0].Args; !slices.Contains(args, "--tls-cert-file=/run/mcs-apiserver/tls.crt") || !slices.Contains(args, "--tls-private-key-file=/run/mcs-apiserver/tls.key") {
		t.Errorf("flags of mcs-apiserver are %q", args)
	}
	if args := pod.Containers[1].Args; !slices.Equal(args, []string{"--serving-ca-file=/run/mcs-apiserver/ca.crt"}) {
		t.Errorf("flags of mcs-controller are %q", args)
	}
	if secret := pod.Volumes[0].Secret; secret == nil || secret.SecretName != "mcs-apiserver-cert-manager" {
		t.Errorf("volume is %+v", pod.Volumes[0])
	}
}
