// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/podtrial"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/truncate"
)

const (
	pollInterval = 500 * time.Millisecond
	// requestTimeout limits how long it may take to create an object, and to read a log.
	requestTimeout = 30 * time.Second
	// settleTimeout limits how long a namespace may take until objects can be created in it: its
	// ServiceAccount is created after it, and servers may not have seen it yet.
	settleTimeout = 15 * time.Second
	// serverLifetime is when a server ends by itself, besides the time to wait for it.
	serverLifetime = 15 * time.Minute
	// maxLog limits how much of a log is read, and maxExcerpt how much of it is in a message.
	maxLog     = 4 << 20
	maxExcerpt = 300
)

// permissions is the advice for users who may not create what is needed.
const permissions = "kubectl mcs test creates a namespace in every cluster, and Pods, Services and ServiceExports in it; with --namespace, the role edit in an existing namespace suffices, with permission to list members and, unless --image is set, to read the Deployment of mcs-apiserver"

var (
	kubernetesAdvice = cluster.Advice{Forbidden: permissions, ServerError: cluster.KubernetesUserAdvice.ServerError}
	mcsAdvice        = cluster.Advice{Forbidden: permissions, ServerError: cluster.MCSUserAdvice.ServerError}
)

// site is a cluster that takes part.
type site struct {
	*cluster.Cluster
	image   string
	timeout time.Duration
	poll    time.Duration
	// deleteTimeout limits each request that deletes something.
	deleteTimeout time.Duration
	facts         facts
	// nodeSelector and tolerations are those of mcs-apiserver, where images can be pulled and run.
	nodeSelector map[string]string
	tolerations  []corev1.Toleration
	// changed is set once something may have been created.
	changed bool
	// node is where the client ran.
	node string
	// logs returns the log of a Pod.
	logs func(ctx context.Context, namespace, pod, container string) ([]byte, error)
}

func newSite(c *cluster.Cluster, id, image string, timeout time.Duration) *site {
	return &site{Cluster: c, image: image, timeout: timeout, poll: pollInterval, deleteTimeout: deleteTimeout, facts: facts{context: c.Context, id: id}, logs: func(ctx context.Context, namespace, pod, container string) ([]byte, error) {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		return c.Kubernetes.CoreV1().Pods(namespace).GetLogs(pod, &corev1.PodLogOptions{Container: container, LimitBytes: ptr.To[int64](maxLog)}).DoRaw(ctx)
	}}
}

// start exports both services, and waits until their server is ready.
func (s *site) start(ctx context.Context, r run) error {
	if err := s.prepareNamespace(ctx, r); err != nil {
		return err
	}
	services := s.Kubernetes.CoreV1().Services(r.namespace)
	for _, service := range []*corev1.Service{r.newService(r.service(), false), r.newService(r.headless(), true)} {
		created, err := persistently(ctx, s, func(ctx context.Context) (*corev1.Service, error) {
			return services.Create(ctx, service, metav1.CreateOptions{})
		})
		if err != nil {
			return fmt.Errorf("create Service %s: %w", service.Name, s.WrapError(err, kubernetesAdvice))
		}
		s.facts.families = created.Spec.IPFamilies
	}
	pod := r.newServer(s.facts.id, s.image, serverLifetime+4*s.timeout)
	s.place(pod)
	if _, err := persistently(ctx, s, func(ctx context.Context) (*corev1.Pod, error) {
		return s.Kubernetes.CoreV1().Pods(r.namespace).Create(ctx, pod, metav1.CreateOptions{})
	}); err != nil {
		return fmt.Errorf("create Pod %s: %w", pod.Name, s.WrapError(err, kubernetesAdvice))
	}
	for _, name := range []string{r.service(), r.headless()} {
		if _, err := persistently(ctx, s, func(ctx context.Context) (any, error) {
			return s.MCS.MulticlusterXV1beta1().ServiceExports(r.namespace).Create(ctx, r.newExport(name), metav1.CreateOptions{})
		}); err != nil {
			return fmt.Errorf("create ServiceExport %s: %w", name, s.WrapError(err, mcsAdvice))
		}
	}
	ready, err := s.await(ctx, r.namespace, pod.Name, s.timeout, isReady)
	if err != nil {
		return fmt.Errorf("context %q: server: %w", s.Context, err)
	}
	s.facts.families = slices.DeleteFunc(slices.Clone(s.facts.families), func(family corev1.IPFamily) bool {
		return !slices.ContainsFunc(ready.Status.PodIPs, func(ip corev1.PodIP) bool { return len(ofFamily([]string{ip.IP}, family)) > 0 })
	})
	return nil
}

// prepareNamespace creates the namespace of the run, or sees that another one exists.
func (s *site) prepareNamespace(ctx context.Context, r run) error {
	if r.ownNamespace {
		if _, err := uninterrupted(ctx, s, func(ctx context.Context) (*corev1.Namespace, error) {
			return s.Kubernetes.CoreV1().Namespaces().Create(ctx, r.newNamespace(), metav1.CreateOptions{})
		}); err != nil {
			return fmt.Errorf("create namespace %s: %w", r.namespace, s.WrapError(err, kubernetesAdvice))
		}
		return nil
	}
	if _, err := s.Kubernetes.CoreV1().Namespaces().Get(ctx, r.namespace, metav1.GetOptions{}); cluster.IsObjectNotFound(err) {
		return fmt.Errorf("context %q: namespace %s does not exist: create it in all clusters, or leave out --namespace to use one of its own", s.Context, r.namespace)
	}
	return nil // users who may not read namespaces may nevertheless create objects in them
}

// uninterrupted creates an object. An interrupt has to wait for the response: a request that is given up
// may take effect after everything was deleted.
func uninterrupted[T any](ctx context.Context, s *site, create func(context.Context) (T, error)) (created T, err error) {
	if ctx.Err() != nil {
		return created, ctx.Err()
	}
	creating, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	created, err = create(creating)
	// Other errors do not tell whether the object exists.
	s.changed = s.changed || !apierrors.IsForbidden(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsInvalid(err) && !cluster.IsObjectNotFound(err)
	return created, err
}

// place has a Pod run where mcs-apiserver does.
func (s *site) place(pod *corev1.Pod) {
	maps.Copy(pod.Spec.NodeSelector, s.nodeSelector)
	pod.Spec.Tolerations = s.tolerations
}

// persistently creates an object in a namespace that was just created, for which servers may not be
// ready yet.
func persistently[T any](ctx context.Context, s *site, create func(context.Context) (T, error)) (T, error) {
	var created T
	var last error
	err := wait.PollUntilContextTimeout(ctx, s.poll, settleTimeout, true, func(context.Context) (bool, error) {
		created, last = uninterrupted(ctx, s, create)
		if last == nil || !isUnsettled(last) {
			return true, last
		}
		return false, nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return created, last
	}
	return created, err
}

// isUnsettled reports whether an error is because the namespace is new.
func isUnsettled(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), `serviceaccount "default" not found`) || cluster.IsObjectNotFound(err)
}

// await waits until a Pod is as wanted. Errors do not name the context.
func (s *site) await(ctx context.Context, namespace, name string, timeout time.Duration, wanted func(*corev1.Pod) bool) (*corev1.Pod, error) {
	var pod *corev1.Pod
	var stuck string
	err := wait.PollUntilContextTimeout(ctx, s.poll, timeout, true, func(ctx context.Context) (bool, error) {
		found, err := s.Kubernetes.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case cluster.IsObjectNotFound(err):
			return false, fmt.Errorf("pod %s was deleted by somebody else", name)
		case apierrors.IsForbidden(err):
			return false, fmt.Errorf("read Pod %s: %w", name, cluster.Diagnose(s.Context, err, kubernetesAdvice))
		case err != nil:
			stuck = "it cannot be read: " + err.Error()
			return false, nil //nolint:nilerr // the next attempt may succeed
		}
		if pod = found; wanted(pod) {
			return true, nil
		}
		if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
			return false, s.whyEnded(ctx, pod)
		}
		var final bool
		if stuck, final = whyPending(pod); final {
			return false, errors.New(stuck)
		}
		return false, nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		if stuck == "" {
			stuck = "it has not started"
			if pod != nil && pod.Status.Phase == corev1.PodRunning {
				stuck = "it is running"
			}
		}
		return nil, fmt.Errorf("pod %s did not get ready or complete within %s: %s", name, timeout, stuck)
	}
	return pod, err
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(condition corev1.PodCondition) bool {
		return condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue
	})
}

// hasSucceeded reports whether a client has tried everything, although injected containers may still run.
func hasSucceeded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || slices.ContainsFunc(pod.Status.ContainerStatuses, func(status corev1.ContainerStatus) bool {
		return status.Name == client && status.State.Terminated != nil && status.State.Terminated.ExitCode == 0
	})
}

// whyEnded explains why a Pod ended too early.
func (s *site) whyEnded(ctx context.Context, pod *corev1.Pod) error {
	log, err := s.logs(ctx, pod.Namespace, pod.Name, pod.Labels[roleLabel])
	switch text := string(log); {
	case strings.Contains(text, "unknown command"), strings.Contains(text, "unknown flag"):
		return fmt.Errorf("mcs-controller of image %s has no command trial: upgrade mcs-apiserver, or choose a newer image with --image", s.image)
	case err == nil && text != "":
		return fmt.Errorf("pod %s ended too early: %s", pod.Name, truncate.Message(strings.TrimSpace(text), maxExcerpt))
	}
	return fmt.Errorf("pod %s ended too early: %s %s", pod.Name, pod.Status.Reason, pod.Status.Message)
}

// finalReasons are the reasons for which a container will hardly ever start.
var finalReasons = []string{"ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "CreateContainerConfigError", "CreateContainerError", "RunContainerError"}

// whyPending returns why a Pod does not run yet, and whether that is final.
func whyPending(pod *corev1.Pod) (why string, final bool) {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return "it cannot be scheduled: " + condition.Message, false // a node may be added, or get free
		}
	}
	for _, status := range pod.Status.ContainerStatuses {
		waiting := status.State.Waiting
		if waiting == nil || waiting.Reason == "ContainerCreating" {
			continue
		}
		why = fmt.Sprintf("container with image %s: %s: %s", pod.Spec.Containers[0].Image, waiting.Reason, waiting.Message)
		if strings.Contains(waiting.Reason, "Image") {
			why += "; choose another image with --image, or with --namespace a namespace in which Pods get pull secrets from ServiceAccount default"
		}
		return why, slices.Contains(finalReasons, waiting.Reason)
	}
	return "", false
}

// observe reads what the cluster imported so far.
func (s *site) observe(ctx context.Context, r run, clusters []facts) error {
	states := map[string]clustersetv1alpha1.MemberState{}
	members, err := s.MCS.ClusterSetV1alpha1().Members().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range members.Items {
		states[members.Items[i].Status.ClusterID] = members.Items[i].Status.State
	}
	for _, each := range []struct {
		name     string
		headless bool
		into     *imported
	}{{r.service(), false, &s.facts.service}, {r.headless(), true, &s.facts.headless}} {
		found, err := s.MCS.MulticlusterXV1beta1().ServiceImports(r.namespace).Get(ctx, each.name, metav1.GetOptions{})
		if cluster.IsObjectNotFound(err) {
			found, err = nil, nil
		}
		if err != nil {
			return err
		}
		list, err := s.Kubernetes.DiscoveryV1().EndpointSlices(r.namespace).List(ctx, metav1.ListOptions{
			LabelSelector: labels.Set{discoveryv1.LabelServiceName: multicluster.DerivedServiceName(r.namespace, each.name)}.String(),
		})
		if err != nil {
			return err
		}
		*each.into = newImported(found, list.Items)
		each.into.incomplete = missing(&s.facts, clusters, *each.into, each.headless, states)
	}
	return nil
}

// awaitImports waits until the cluster has imported both services from all clusters, or the time is
// over: what is missing then is a result. The error is that nothing could be read.
func (s *site) awaitImports(ctx context.Context, r run, clusters []facts) error {
	var last error
	seen := false
	err := wait.PollUntilContextTimeout(ctx, s.poll, s.timeout, true, func(ctx context.Context) (bool, error) {
		last = s.observe(ctx, r, clusters)
		seen = seen || last == nil
		return last == nil && s.facts.service.incomplete == "" && s.facts.headless.incomplete == "", nil
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && last != nil && (!seen || !errors.Is(last, context.DeadlineExceeded)):
		return fmt.Errorf("read imports: %w", s.WrapError(last, mcsAdvice))
	}
	return nil
}

// call runs the client, and returns what it saw.
func (s *site) call(ctx context.Context, r run, plan podtrial.Plan) outcome {
	if len(plan.Queries)+len(plan.Targets) == 0 {
		return outcome{}
	}
	limit := s.timeout + durationOf(plan)
	pod, err := r.newClient(s.image, plan, limit)
	if err == nil {
		s.place(pod)
		_, err = uninterrupted(ctx, s, func(ctx context.Context) (*corev1.Pod, error) {
			return s.Kubernetes.CoreV1().Pods(r.namespace).Create(ctx, pod, metav1.CreateOptions{})
		})
	}
	if err != nil {
		return outcome{failure: fmt.Sprintf("create the Pod of the client: %v", cluster.Diagnose(s.Context, err, kubernetesAdvice))}
	}
	completed, err := s.await(ctx, r.namespace, pod.Name, limit, hasSucceeded)
	if err != nil {
		return outcome{failure: fmt.Sprintf("client: %v", err)}
	}
	s.node = completed.Spec.NodeName
	log, err := s.logs(ctx, r.namespace, pod.Name, client)
	if err != nil {
		return outcome{failure: fmt.Sprintf("read the log of Pod %s: %v", pod.Name, cluster.Diagnose(s.Context, err, kubernetesAdvice))}
	}
	results, err := podtrial.Parse(strings.NewReader(string(log)))
	if err == nil && !results.Done {
		err = errors.New("it is not complete")
	}
	if err != nil {
		return outcome{failure: fmt.Sprintf("log of Pod %s: %v", pod.Name, err)}
	}
	return outcome{results: results}
}
