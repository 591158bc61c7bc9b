// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"crypto/rand"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/coredns"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/installation"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/podtrial"
)

const (
	nameLabel = "app.kubernetes.io/name"
	// program is the name of everything that belongs to a run, and the begin of its names.
	program = "mcs-test"
	// runLabel has the run.
	runLabel = "test.mcs-apiserver.io/run"
	// roleLabel tells the server from clients.
	roleLabel = "test.mcs-apiserver.io/role"
	server    = "server"
	client    = "client"
	// hostname is that of the server, which is a part of its DNS name.
	hostname = "server"
)

// allRuns selects the objects of all runs.
var allRuns = labels.Set{nameLabel: program, multicluster.ManagedByLabel: coredns.Manager}.String() + "," + runLabel

// run has the names of what belongs to one run. They are the same in all clusters.
type run struct {
	id, namespace string
	// key is known to the Pods of the run only. Its ID is not: it is a part of names that all members see.
	key string
	// ownNamespace is set if the namespace belongs to the run.
	ownNamespace bool
}

// newRun returns a run in a namespace, or in one of its own.
func newRun(namespace string) run {
	r := run{id: utilrand.String(8), namespace: namespace, key: rand.Text()}
	if namespace == "" {
		r.namespace, r.ownNamespace = r.service(), true
	}
	return r
}

func (r run) service() string  { return program + "-" + r.id }
func (r run) headless() string { return r.service() + "-headless" }

// dnsName returns the name of a service in the ClusterSet.
func (r run) dnsName(service string) string {
	return fmt.Sprintf("%s.%s.svc.%s", service, r.namespace, coredns.Zone)
}

// podName returns the name of the server of a cluster.
func (r run) podName(cluster string) string {
	return hostname + "." + cluster + "." + r.dnsName(r.headless())
}

func (r run) labels(role string) map[string]string {
	set := map[string]string{nameLabel: program, multicluster.ManagedByLabel: coredns.Manager, runLabel: r.id}
	if role != "" {
		set[roleLabel] = role
	}
	return set
}

func (r run) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: r.namespace, Name: name, Labels: r.labels("")}
}

func (r run) newNamespace() *corev1.Namespace {
	set := r.labels("")
	set["pod-security.kubernetes.io/enforce"] = "restricted"
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.namespace, Labels: set}}
}

// newService returns one of the Services, which have all IP families of their cluster.
func (r run) newService(name string, headless bool) *corev1.Service {
	service := &corev1.Service{ObjectMeta: r.meta(name), Spec: corev1.ServiceSpec{
		Selector: r.labels(server), IPFamilyPolicy: ptr.To(corev1.IPFamilyPolicyPreferDualStack),
		Ports: []corev1.ServicePort{
			{Name: "tcp", Protocol: corev1.ProtocolTCP, Port: podtrial.Port, TargetPort: intstr.FromInt32(podtrial.Port)},
			{Name: "udp", Protocol: corev1.ProtocolUDP, Port: podtrial.Port, TargetPort: intstr.FromInt32(podtrial.Port)},
		},
	}}
	if headless {
		service.Spec.ClusterIP = corev1.ClusterIPNone
	}
	return service
}

func (r run) newExport(name string) *multiclusterxv1beta1.ServiceExport {
	return &multiclusterxv1beta1.ServiceExport{ObjectMeta: r.meta(name)}
}

// newServer returns the Pod that serves in a cluster.
func (r run) newServer(cluster, image string, lifetime time.Duration) *corev1.Pod {
	pod := r.newPod(server, image, lifetime)
	// The hostname is in EndpointSlices if the subdomain is the Service.
	pod.Spec.Hostname, pod.Spec.Subdomain = hostname, r.headless()
	container := &pod.Spec.Containers[0]
	container.Args = []string{"serve", "--" + podtrial.KeyFlag + "=" + r.key, "--" + podtrial.ClusterFlag + "=" + cluster, fmt.Sprintf("--%s=%d", podtrial.PortFlag, podtrial.Port)}
	container.Ports = []corev1.ContainerPort{{Name: "tcp", ContainerPort: podtrial.Port, Protocol: corev1.ProtocolTCP}, {Name: "udp", ContainerPort: podtrial.Port, Protocol: corev1.ProtocolUDP}}
	container.ReadinessProbe = &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(podtrial.Port)}}, PeriodSeconds: 1,
	}
	return pod
}

// newClient returns the Pod that tries a plan.
func (r run) newClient(image string, plan podtrial.Plan, lifetime time.Duration) (*corev1.Pod, error) {
	args, err := plan.Args()
	if err != nil {
		return nil, err
	}
	pod := r.newPod(client, image, lifetime)
	pod.Spec.Containers[0].Args = append([]string{"call"}, args...)
	return pod, nil
}

// newPod returns a Pod that meets the Pod Security Standard restricted, has no credentials, and ends by
// itself if nobody deletes it.
func (r run) newPod(role, image string, lifetime time.Duration) *corev1.Pod {
	meta := r.meta(r.service() + "-" + role)
	maps.Copy(meta.Labels, r.labels(role))
	meta.Labels["sidecar.istio.io/inject"] = "false" // a sidecar would accept every connection
	meta.Annotations = map[string]string{"linkerd.io/inject": "disabled"}
	return &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: ptr.To(false), EnableServiceLinks: ptr.To(false),
		ActiveDeadlineSeconds: ptr.To(int64(lifetime/time.Second) + 1), TerminationGracePeriodSeconds: ptr.To[int64](1),
		NodeSelector:    map[string]string{corev1.LabelOSStable: "linux"}, // images are for Linux
		SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: ptr.To(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		Containers: []corev1.Container{{
			Name: role, Image: image, ImagePullPolicy: corev1.PullIfNotPresent, Command: []string{installation.Controller, "trial"},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
				Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
			},
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
		}},
	}}
}
