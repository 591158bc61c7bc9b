// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"
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

// R352: the names of namespaces may contain the default name of the other one, and look like
// numbers, booleans or null in YAML.
func TestNamesOfNamespacesAreIndependent(t *testing.T) {
	texts := func(system, storage string) (found []string) {
		for _, object := range render(t, system, "storage: {namespace: '"+storage+"'}").Objects {
			text, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, string(text))
		}
		return found
	}
	for _, names := range [][2]string{{"my-mcs-storage", "my-mcs-system"}, {"123", "1e3"}, {"true", "null"}, {"0x1f", "010"}} {
		want := texts("namespace-one", "namespace-two")
		for i := range want {
			want[i] = strings.NewReplacer("namespace-one", names[0], "namespace-two", names[1]).Replace(want[i])
		}
		got := texts(names[0], names[1])
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}

// R352: `helm install` without --namespace installs into default.
func TestNamespaceOfTheReleaseIsItsOwn(t *testing.T) {
	for namespace, want := range map[string]bool{"default": false, "kube-system": false, "kube-public": false, "kube-other": false, "default-mcs": true, "kubernetes": true} {
		if _, err := Render(source, namespace, ""); (err == nil) != want || err != nil && !strings.Contains(err.Error(), "add --namespace mcs-system --create-namespace") {
			t.Errorf("namespace %s: got %v", namespace, err)
		}
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
		"clusterSetIPRange: ['fd00:243:::/48']":                     "at '/clusterSetIPRange/0': 'fd00:243:::/48' does not match pattern",
		"clusterSetIPRange: ['::ffff:243.0.0.0/104']":               "at '/clusterSetIPRange/0': '::ffff:243.0.0.0/104' does not match pattern",
		"clusterSetIPRange: ['fd00::243::/48']":                     "at '/clusterSetIPRange/0': 'fd00::243::/48' does not match pattern",
		"clusterSetIPRange: ['1:2:3:4:5:6:7:8:9/48']":               "at '/clusterSetIPRange/0': '1:2:3:4:5:6:7:8:9/48' does not match pattern",
		"clusterSetIPRange: [0.0.0.0/0]":                            "at '/clusterSetIPRange/0': '0.0.0.0/0' does not match pattern",
		"clusterSetIPRange: ['fc00::/7']":                           "at '/clusterSetIPRange/0': 'fc00::/7' does not match pattern",
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
		"clusterSetIPRange: [243.0.0.0/8, 'fd00:243::/48']", "clusterSetIPRange: ['fd00::/8']", "clusterSetIPRange: [10.255.249.0/32, 'FD00::1:0/112']",
		"clusterSetIPRange: ['fd00:1:2:3:4:5:6:0/112']", "clusterSetIPRange: ['fd00:1:2:3:4:5:6::/112']", "clusterSetIPRange: ['fd00::1:2:3:4:5:0/112']", "clusterSetIPRange: ['fd00:1:2::4:5:0/112']", "clusterSetIPRange: [10.0.0.0/9]", "storage: {namespace: default-storage}", "storage: {migrateFrom: null}",
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
	for _, link := range []string{"files", "monitoring"} {
		if err := os.RemoveAll(filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
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
nodeSelector: {pool: infra}
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
		"nodeSelector":            maps.Equal(pod.NodeSelector, map[string]string{"pool": "infra", "kubernetes.io/os": "linux"}),
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

// Images are for Linux: without a selector, Pods are scheduled to nodes with Windows, where they
// never start. R350 compares the kustomizations.
func TestPodsRunOnLinux(t *testing.T) {
	for _, values := range append(variants, "nodeSelector: null", "nodeSelector: {kubernetes.io/os: windows}") {
		if selector := deployment(t, render(t, "mcs-system", values)).Spec.Template.Spec.NodeSelector; selector["kubernetes.io/os"] != "linux" {
			t.Errorf("%s: node selector is %v", values, selector)
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

// R526: by default, there is nothing of the Prometheus operator.
func TestMonitoringIsOffByDefault(t *testing.T) {
	for _, object := range render(t, "mcs-system", "").Objects {
		if strings.HasPrefix(object["apiVersion"].(string), "monitoring.coreos.com/") {
			t.Errorf("%s is rendered", object.Key())
		}
	}
}

// R526: ports that the Service and the Pods have are scraped, with the names and the CA of the
// serving certificate.
func TestServiceMonitor(t *testing.T) {
	type endpoint struct {
		Port, TargetPort, Scheme, BearerTokenFile string
		TLSConfig                                 struct {
			ServerName         string
			InsecureSkipVerify bool
			CA                 struct{ Secret corev1.SecretKeySelector }
		}
	}
	for values, secrets := range map[string][]string{
		"monitoring: {serviceMonitor: {enabled: true, labels: {release: prometheus}}}":                                                                              {"mcs-apiserver-serving-cert", "mcs-apiserver-serving-cert"},
		"certManager: {enabled: true, issuerRef: {name: ca}}\nmonitoring: {serviceMonitor: {enabled: true, labels: {release: prometheus}}}\nports: {metrics: 9443}": {"mcs-apiserver-cert-manager", ""},
	} {
		rendered := render(t, "fleet", values)
		var monitor struct {
			Metadata struct {
				Namespace string
				Labels    map[string]string
			}
			Spec struct {
				Selector    struct{ MatchLabels map[string]string }
				SampleLimit int64
				Endpoints   []endpoint
			}
		}
		if err := json.Unmarshal(find(t, rendered, "ServiceMonitor"), &monitor); err != nil {
			t.Fatal(err)
		}
		var service corev1.Service
		if err := json.Unmarshal(find(t, rendered, "Service"), &service); err != nil {
			t.Fatal(err)
		}
		if monitor.Metadata.Namespace != "fleet" || monitor.Metadata.Labels["release"] != "prometheus" || !maps.Equal(monitor.Spec.Selector.MatchLabels, service.Labels) {
			t.Errorf("%s: got %+v", values, monitor)
		}
		if monitor.Spec.SampleLimit != 50000 { // R204: whatever a member causes
			t.Errorf("%s: %d samples are read at a time", values, monitor.Spec.SampleLimit)
		}
		if len(monitor.Spec.Endpoints) != 2 || monitor.Spec.Endpoints[0].Port != service.Spec.Ports[0].Name {
			t.Fatalf("%s: endpoints are %+v", values, monitor.Spec.Endpoints)
		}
		containers := deployment(t, rendered).Spec.Template.Spec.Containers
		if port := monitor.Spec.Endpoints[1].TargetPort; !slices.ContainsFunc(containers[1].Ports, func(p corev1.ContainerPort) bool { return p.Name == port }) {
			t.Errorf("%s: mcs-controller has no port %q", values, port)
		}
		for i, endpoint := range monitor.Spec.Endpoints {
			config := endpoint.TLSConfig
			if endpoint.Scheme != "https" || endpoint.BearerTokenFile == "" || config.CA.Secret.Name != secrets[i] ||
				config.InsecureSkipVerify != (secrets[i] == "") || !config.InsecureSkipVerify && (config.ServerName != "mcs-apiserver.fleet.svc" || config.CA.Secret.Key != "ca.crt") {
				t.Errorf("%s: endpoint is %+v", values, endpoint)
			}
		}
	}
}

// R526: the alerts of the chart are those of artifacts/monitoring.
func TestPrometheusRule(t *testing.T) {
	var rule struct {
		Metadata struct{ Labels map[string]string }
		Spec     any
	}
	if err := json.Unmarshal(find(t, render(t, "mcs-system", "monitoring: {rules: {enabled: true, labels: {release: prometheus}}}"), "PrometheusRule"), &rule); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(artifacts + "/monitoring/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var want any
	if err := yaml.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, rule.Spec); diff != "" || rule.Metadata.Labels["release"] != "prometheus" {
		t.Error(rule.Metadata.Labels, diff)
	}
}

// R525, R526: the alerts can tell apart the clusters that one Prometheus scrapes, also if its label
// for them is that of members.
func TestPrometheusRuleForSeveralClusters(t *testing.T) {
	grouping := regexp.MustCompile(`\b(by|on|ignoring|without) \(([^)]*)\)`)
	for label, member := range map[string]string{"": "cluster", "site": "cluster", "cluster": "exported_cluster"} {
		var rule struct {
			Spec struct {
				Groups []struct {
					Rules []struct{ Alert, Expr string }
				}
			}
		}
		rendered := find(t, render(t, "mcs-system", "monitoring: {rules: {enabled: true, clusterLabel: '"+label+"'}}"), "PrometheusRule")
		if err := json.Unmarshal(rendered, &rule); err != nil {
			t.Fatal(err)
		}
		members := 0
		for _, group := range rule.Spec.Groups {
			for _, rule := range group.Rules {
				if strings.Count(rule.Expr, "by (") == 0 {
					t.Errorf("%s joins all clusters: %s", rule.Alert, rule.Expr)
				}
				for _, match := range grouping.FindAllStringSubmatch(rule.Expr, -1) {
					labels := strings.Split(match[2], ", ")
					if label != "" && labels[0] != label || (match[1] != "by" && match[1] != "on") {
						t.Errorf("with label %q, %s has %s", label, rule.Alert, match[0])
					}
					if slices.Contains(labels[min(1, len(label)):], member) {
						members++
					}
				}
			}
		}
		if named := strings.Contains(string(rendered), "$labels."+member+" "); !named || members < 10 || member != "cluster" && strings.Contains(string(rendered), "$labels.cluster ") {
			t.Errorf("with label %q, alerts do not name members by %s (%d)", label, member, members)
		}
	}
}
