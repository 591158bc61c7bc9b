// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/coredns"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/podprobe"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/truncate"
)

const (
	pollInterval = 500 * time.Millisecond
	// requestTimeout limits how long it may take to create the Pod, and to read its log.
	requestTimeout = 30 * time.Second
	// deleteTimeout limits how long the deletion of the Pod may take, also after an interrupt.
	deleteTimeout = 10 * time.Second
	// unseenAttempts is how often a Pod is looked for whose creation was not answered.
	unseenAttempts = 4
	// maxLog limits how much of a log is read, and maxExcerpt how much of it is in a message.
	maxLog     = 1 << 20
	maxExcerpt = 300
	// container is the name of the container that tries everything. Others may be injected.
	container = "probe"
)

// podProbe runs `mcs-controller probe` in a Pod.
type podProbe struct {
	*cluster.Cluster
	namespace, image string
	// name is that of the Pod. It is chosen here, so that the Pod can be deleted although the response to its
	// creation is lost.
	name string
	// labels are those that the user chose.
	labels map[string]string
	// nodeSelector and tolerations are those of mcs-apiserver: nodes on which the image runs.
	nodeSelector  map[string]string
	tolerations   []corev1.Toleration
	timeout, poll time.Duration
	// logs returns the log of a Pod.
	logs func(ctx context.Context, pod string) ([]byte, error)
	// node is where the Pod runs, once it does.
	node string
	// leftBehind is the name of the Pod if it could not be deleted, and undeleted is why.
	leftBehind string
	undeleted  error
}

// newPodProbe returns what runs a Pod in a namespace.
func newPodProbe(c *cluster.Cluster, namespace, image string, timeout time.Duration) *podProbe {
	return &podProbe{Cluster: c, namespace: namespace, name: "mcs-doctor-" + rand.String(10), image: image, timeout: timeout, poll: pollInterval, logs: func(ctx context.Context, pod string) ([]byte, error) {
		return c.Kubernetes.CoreV1().Pods(namespace).GetLogs(pod, &corev1.PodLogOptions{Container: container, LimitBytes: ptr.To[int64](maxLog)}).DoRaw(ctx)
	}}
}

// probeLabel is the label of the Pods that this program creates to connect to services.
const probeLabel = "clusterset.mcs-apiserver.io/doctor"

// ownLabels are those that users do not choose.
var ownLabels = map[string]string{
	probeLabel: "probe", multicluster.ManagedByLabel: coredns.Manager,
	"sidecar.istio.io/inject": "false", // a sidecar would accept every connection, and never end
}

// podLabels returns the labels of the Pod.
func podLabels(chosen map[string]string) labels.Set {
	return labels.Merge(labels.Merge(labels.Set{"app.kubernetes.io/name": "mcs-doctor"}, chosen), ownLabels)
}

// validateLabels checks the labels that the user chose.
func validateLabels(chosen map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(chosen)) {
		problems := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(chosen[key])...)
		switch _, own := ownLabels[key]; {
		case own:
			return fmt.Errorf("--probe-labels %s: the label has another meaning for this command", key)
		case key == appsv1.DefaultDeploymentUniqueLabelKey:
			return fmt.Errorf("--probe-labels %s: a ReplicaSet would take the Pod for its own", key)
		case len(problems) > 0:
			return fmt.Errorf("--probe-labels %s=%s: %s", key, chosen[key], strings.Join(problems, "; "))
		}
	}
	return nil
}

// newPod returns the Pod. It meets the Pod Security Standard restricted, has no credentials, and ends by
// itself after it has started, if nobody deletes it.
func (p *podProbe) newPod(request podprobe.Request) *corev1.Pod {
	resources := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("64Mi")}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: p.name, Namespace: p.namespace,
			Labels:      podLabels(p.labels),
			Annotations: map[string]string{"linkerd.io/inject": "disabled"},
		},
		Spec: corev1.PodSpec{
			// With the labels of an application, a Service may select the Pod. It is never ready, so that no
			// client is sent to it.
			ReadinessGates: []corev1.PodReadinessGate{{ConditionType: probeLabel}},
			RestartPolicy:  corev1.RestartPolicyNever, AutomountServiceAccountToken: ptr.To(false), EnableServiceLinks: ptr.To(false),
			ActiveDeadlineSeconds: ptr.To(int64(p.timeout/time.Second) + 1), TerminationGracePeriodSeconds: ptr.To[int64](0),
			NodeSelector:    labels.Merge(labels.Set{corev1.LabelOSStable: "linux"}, p.nodeSelector), // images are for Linux
			Tolerations:     p.tolerations,
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: ptr.To(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers: []corev1.Container{{
				Name: container, Image: p.image, ImagePullPolicy: corev1.PullIfNotPresent,
				Command: []string{controller, "probe"}, Args: request.Args(),
				Resources: corev1.ResourceRequirements{Requests: resources, Limits: resources},
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
}

// run creates the Pod, waits until it has completed, and deletes it in any case.
func (p *podProbe) run(ctx context.Context, request podprobe.Request) (podprobe.Results, error) {
	if ctx.Err() != nil {
		return podprobe.Results{}, ctx.Err()
	}
	var created *corev1.Pod
	var refused bool
	defer func() {
		switch {
		case refused:
		case created != nil:
			p.delete(ctx, created)
		default:
			p.deleteUnseen(ctx)
		}
	}()
	created, err := p.create(ctx, request)
	if err != nil {
		refused = isRefused(err)
		return podprobe.Results{}, fmt.Errorf("create a Pod in namespace %s: %w", p.namespace, err)
	}
	pod, err := p.wait(ctx, created.Name)
	if err != nil {
		return podprobe.Results{}, err
	}
	p.node = pod.Spec.NodeName
	return p.results(ctx, pod)
}

// create creates the Pod. An interrupt has to wait for the response, without which it is not certain whether
// there is a Pod to delete.
func (p *podProbe) create(ctx context.Context, request podprobe.Request) (*corev1.Pod, error) {
	creating, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	created, err := p.Kubernetes.CoreV1().Pods(p.namespace).Create(creating, p.newPod(request), metav1.CreateOptions{})
	if err != nil {
		return nil, err // the object is not nil, but empty
	}
	return created, nil
}

// isRefused reports whether the kube-apiserver answered that it does not create the Pod. After any other error,
// it may have done so, also if the Pod exists already: the name is random, and clients repeat requests.
func isRefused(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code >= 400 && status.Status().Code < 500 && !apierrors.IsTimeout(err) && !apierrors.IsAlreadyExists(err)
}

// delete deletes the Pod, also after an interrupt.
func (p *podProbe) delete(ctx context.Context, pod *corev1.Pod) {
	deleting, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteTimeout)
	defer cancel()
	if err := p.deleteNow(deleting, pod); err != nil && !cluster.IsObjectNotFound(err) {
		p.leftBehind, p.undeleted = pod.Name, err
	}
}

func (p *podProbe) deleteNow(ctx context.Context, pod *corev1.Pod) error {
	return p.Kubernetes.CoreV1().Pods(p.namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0), Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
}

// deleteUnseen deletes the Pod that may have been created although there was no response. It may also appear a
// moment later. Unless the kube-apiserver says that there is none, the Pod counts as left behind.
func (p *podProbe) deleteUnseen(ctx context.Context) {
	deleting, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteTimeout)
	defer cancel()
	unsure := errors.New("nothing was answered")
	for range unseenAttempts {
		pod, err := p.Kubernetes.CoreV1().Pods(p.namespace).Get(deleting, p.name, metav1.GetOptions{})
		switch {
		case cluster.IsObjectNotFound(err):
			unsure = nil
		case err != nil:
			unsure = err
		case pod.Labels[probeLabel] != ownLabels[probeLabel]:
			return // it is not the one of this command
		default:
			if unsure = p.deleteNow(deleting, pod); unsure == nil || cluster.IsObjectNotFound(unsure) {
				return
			}
		}
		select {
		case <-time.After(p.poll):
		case <-deleting.Done():
		}
	}
	if unsure != nil {
		p.leftBehind, p.undeleted = p.name, unsure
	}
}

// wait waits until the Pod has completed, or will not.
func (p *podProbe) wait(ctx context.Context, name string) (*corev1.Pod, error) {
	var pod *corev1.Pod
	var stuck string
	err := wait.PollUntilContextTimeout(ctx, p.poll, p.timeout, true, func(ctx context.Context) (bool, error) {
		found, err := p.Kubernetes.CoreV1().Pods(p.namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case cluster.IsObjectNotFound(err):
			return false, fmt.Errorf("pod %s was deleted by somebody else", name)
		case apierrors.IsForbidden(err):
			return false, fmt.Errorf("read Pod %s: %w", name, err)
		case err != nil:
			stuck = "it cannot be read: " + err.Error()
			return false, nil //nolint:nilerr // the next attempt may succeed
		}
		pod = found
		if hasEnded(pod) {
			return true, nil
		}
		var final bool
		if stuck, final = whyPending(pod); final {
			return false, errors.New(stuck)
		}
		return false, nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		if stuck == "" {
			stuck = "it is still running"
			if pod == nil || pod.Status.Phase != corev1.PodRunning {
				stuck = "it has not started"
			}
		}
		return nil, fmt.Errorf("the Pod did not complete within %s: %s", p.timeout, stuck)
	}
	return pod, err
}

// hasEnded reports whether everything was tried, although injected containers may still run.
func hasEnded(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return true
	}
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(status corev1.ContainerStatus) bool {
		return status.Name == container && status.State.Terminated != nil
	})
}

// finalReasons are the reasons for which a container will hardly ever start.
var finalReasons = map[string]string{
	"ImagePullBackOff":           "its image %s cannot be pulled: choose another one with --probe-image",
	"ErrImageNeverPull":          "its image %s is not on the node: choose another one with --probe-image",
	"InvalidImageName":           "its image %s has no valid name: choose another one with --probe-image",
	"CreateContainerConfigError": "its container with image %s cannot be created",
	"CreateContainerError":       "its container with image %s cannot be created",
	"RunContainerError":          "its container with image %s cannot be run",
}

// whyPending returns why a Pod does not run yet, and whether that is final.
func whyPending(pod *corev1.Pod) (why string, final bool) {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return "it cannot be scheduled: " + condition.Message, false // a node may be added, or get free
		}
	}
	for _, status := range pod.Status.ContainerStatuses {
		if status.State.Waiting == nil {
			continue
		}
		reason, message := status.State.Waiting.Reason, status.State.Waiting.Message
		if format, ok := finalReasons[reason]; ok {
			return fmt.Sprintf(format, pod.Spec.Containers[0].Image) + fmt.Sprintf(" (%s: %s)", reason, message), true
		}
		if reason == "ErrImagePull" {
			return fmt.Sprintf("its image %s cannot be pulled: %s", pod.Spec.Containers[0].Image, message), false
		}
	}
	return "", false
}

// results reads what the Pod printed.
func (p *podProbe) results(ctx context.Context, pod *corev1.Pod) (podprobe.Results, error) {
	reading, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	log, err := p.logs(reading, pod.Name)
	if err != nil {
		return podprobe.Results{}, fmt.Errorf("read the log of Pod %s: %w", pod.Name, err)
	}
	results, err := podprobe.Parse(strings.NewReader(string(log)))
	switch {
	case err != nil:
		return results, err
	case results.Done:
		return results, nil
	case strings.Contains(string(log), "unknown command"), strings.Contains(string(log), "unknown flag"):
		return results, fmt.Errorf("mcs-controller of image %s has no command probe: upgrade mcs-apiserver, or choose a newer image with --probe-image", p.image)
	}
	why := truncate.Characters(strings.TrimSpace(string(log)), maxExcerpt)
	if pod.Status.Message != "" {
		why = pod.Status.Message
	}
	return results, fmt.Errorf("the Pod ended before everything was tried: %s %s", pod.Status.Reason, why)
}
