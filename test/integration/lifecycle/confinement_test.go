// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// manifests are the objects of one variant of the installation that confine its Pods.
type manifests struct {
	deployment appsv1.Deployment
	policy     networkingv1.NetworkPolicy
}

// forEachVariant runs a test with the rendered manifests of each variant of the installation.
func forEachVariant(t *testing.T, test func(*testing.T, manifests)) {
	t.Helper()
	variants := expect.Must(filepath.Glob(filepath.Join(root, "artifacts", "*", "kustomization.yaml")))(t)
	if len(variants) < 3 {
		t.Fatalf("found only %v", variants)
	}
	for _, variant := range variants {
		dir := filepath.Dir(variant)
		text := expect.Must(exec.CommandContext(t.Context(), filepath.Join(root, "bin", "kubernetes", "kubectl"), "kustomize", dir).Output())(t)
		var found manifests
		for document := range strings.SplitSeq(string(text), "\n---\n") {
			var object struct{ Kind string }
			expect.NoError(t, yaml.Unmarshal([]byte(document), &object))
			switch object.Kind {
			case "Deployment":
				expect.NoError(t, yaml.UnmarshalStrict([]byte(document), &found.deployment))
			case "NetworkPolicy":
				expect.NoError(t, yaml.UnmarshalStrict([]byte(document), &found.policy))
			}
		}
		t.Run(filepath.Base(dir), func(t *testing.T) { test(t, found) })
	}
}

// containers returns mcs-apiserver and mcs-controller, which must be the only containers.
func (m manifests) containers(t *testing.T) (server, controller corev1.Container) {
	t.Helper()
	pod := m.deployment.Spec.Template.Spec
	if len(pod.Containers) != 2 || len(pod.InitContainers) != 0 || pod.Containers[0].Name != "mcs-apiserver" || pod.Containers[1].Name != "mcs-controller" {
		t.Fatalf("containers are %+v and %+v", pod.InitContainers, pod.Containers)
	}
	return pod.Containers[0], pod.Containers[1]
}

// R261: only the ports that authenticate requests can be reached from other Pods.
func TestNetworkPolicyOpensTheAPIOnly(t *testing.T) {
	forEachVariant(t, func(t *testing.T, m manifests) {
		server, controller := m.containers(t)
		open, want := map[string]int32{}, map[string]int32{"https": 6443, "metrics": 8443}
		if m.policy.Namespace != m.deployment.Namespace || !apiequality.Semantic.DeepEqual(&m.policy.Spec.PodSelector, m.deployment.Spec.Selector) {
			t.Errorf("policy of namespace %q selects Pods with %+v", m.policy.Namespace, m.policy.Spec.PodSelector)
		}
		if !slices.Equal(m.policy.Spec.PolicyTypes, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}) || len(m.policy.Spec.Ingress) != 1 {
			t.Fatalf("policy is %+v", m.policy.Spec)
		}
		for _, rule := range m.policy.Spec.Ingress[0].Ports {
			for _, port := range slices.Concat(server.Ports, controller.Ports) {
				if port.Name == rule.Port.StrVal && ptr.Deref(rule.Protocol, "") == corev1.ProtocolTCP {
					open[port.Name] = port.ContainerPort
				}
			}
		}
		if !maps.Equal(open, want) || len(m.policy.Spec.Ingress[0].Ports) != len(want) || len(server.Ports) != 1 {
			t.Errorf("policy opens %v, want %v; ports of mcs-apiserver are %+v", open, want, server.Ports)
		}
	})
}

// R262: a container has nothing that it does not need: no privileges, no writable file system
// but its volumes, and no volume of the other one but the serving certificate, which
// mcs-controller writes.
func TestContainersAreSeparated(t *testing.T) {
	forEachVariant(t, func(t *testing.T, m manifests) {
		pod := m.deployment.Spec.Template.Spec
		if pod.HostNetwork || pod.HostPID || pod.HostIPC || ptr.Deref(pod.ShareProcessNamespace, false) {
			t.Error("Pod shares namespaces with its node, or between its containers")
		}
		security := pod.SecurityContext
		if !ptr.Deref(security.RunAsNonRoot, false) || security.SeccompProfile == nil || security.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
			t.Errorf("security context of the Pod is %+v", security)
		}
		server, controller := m.containers(t)
		for _, container := range []corev1.Container{server, controller} {
			want := &corev1.SecurityContext{
				AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			}
			if !apiequality.Semantic.DeepEqual(container.SecurityContext, want) {
				t.Errorf("security context of %s is %+v", container.Name, container.SecurityContext)
			}
		}
		if mounts := controller.VolumeMounts; len(mounts) != 1 || mounts[0].Name != "serving-cert" {
			t.Errorf("mcs-controller mounts %+v", mounts)
		}
		for _, mount := range server.VolumeMounts {
			if mount.Name == "serving-cert" && !mount.ReadOnly {
				t.Error("mcs-apiserver can write its serving certificate")
			}
		}
		for _, volume := range pod.Volumes {
			if volume.EmptyDir != nil && volume.EmptyDir.SizeLimit.IsZero() {
				t.Errorf("size of volume %s is not limited", volume.Name)
			}
			if volume.HostPath != nil {
				t.Errorf("volume %s is a directory of the node", volume.Name)
			}
		}
	})
}

// needed is the memory of a container without members, and for each member that exports as
// much as the default limits allow, as measured: see docs/operations.md.
var needed = map[string]struct{ idle, perMember int64 }{
	"mcs-apiserver":  {idle: 128 << 20, perMember: 200 << 20},
	"mcs-controller": {idle: 96 << 20, perMember: 160 << 20},
}

// R263: the limits of the containers fit four members that export as much as their default
// limits allow.
func TestLimitsFitTheBudgetsOfMembers(t *testing.T) {
	const members = 4
	if limits := exports.DefaultLimits(); limits.Services != 5_000 || limits.Endpoints != 50_000 {
		t.Errorf("default limits of a member are %+v: measure again what a member needs", limits)
	}
	forEachVariant(t, func(t *testing.T, m manifests) {
		server, controller := m.containers(t)
		for _, container := range []corev1.Container{server, controller} {
			memory, cpu := container.Resources.Limits.Memory().Value(), container.Resources.Limits.Cpu()
			if least := needed[container.Name].idle + members*needed[container.Name].perMember; memory < least || cpu.Cmp(resource.MustParse("1")) < 0 {
				t.Errorf("limits of %s are %d bytes and %s CPUs, want at least %d bytes and 1 CPU", container.Name, memory, cpu, least)
			}
			if requests := container.Resources.Requests; requests.Memory().Value() < needed[container.Name].idle || requests.Cpu().IsZero() {
				t.Errorf("%s requests %v", container.Name, requests)
			}
			if soft := softLimit(t, container); soft > memory*9/10 || soft < memory*8/10 {
				t.Errorf("GOMEMLIMIT of %s is %d bytes, want 80 to 90 %% of %d", container.Name, soft, memory)
			}
		}
	})
}

// softLimit returns the memory limit of the Go runtime. Its units are those of Kubernetes
// with a B.
func softLimit(t *testing.T, container corev1.Container) int64 {
	t.Helper()
	index := slices.IndexFunc(container.Env, func(variable corev1.EnvVar) bool { return variable.Name == "GOMEMLIMIT" })
	if index < 0 {
		t.Fatalf("%s has no GOMEMLIMIT", container.Name)
	}
	limit := expect.Must(resource.ParseQuantity(strings.TrimSuffix(container.Env[index].Value, "B")))(t)
	return limit.Value()
}
