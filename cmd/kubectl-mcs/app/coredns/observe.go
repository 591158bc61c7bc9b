// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package coredns

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
)

// Observe finds the workload behind a Service, given as namespace/name, or by default
// behind the Service of the cluster DNS, and returns how it is configured.
func Observe(ctx context.Context, client kubernetes.Interface, service string) (*Setup, error) {
	found, err := findService(ctx, client, service)
	if err != nil {
		return nil, err
	}
	w, err := findWorkload(ctx, client, found)
	if err != nil {
		return nil, err
	}
	configMaps := map[string]*corev1.ConfigMap{}
	for _, name := range configMapsOf(w) {
		configMap, err := client.CoreV1().ConfigMaps(w.Namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, fmt.Errorf("get ConfigMap %s/%s: %w", w.Namespace, name, err)
		default:
			configMaps[name] = configMap
		}
	}
	return decide(w, found, configMaps)
}

// usualServices are the names that the Service of the cluster DNS has.
var usualServices = []string{"kube-system/kube-dns", "kube-system/coredns", "kube-system/rke2-coredns-rke2-coredns", "openshift-dns/dns-default"}

func findService(ctx context.Context, client kubernetes.Interface, wanted string) (*corev1.Service, error) {
	names := usualServices
	if wanted != "" {
		names = []string{wanted}
	}
	var forbidden error
	for _, full := range names {
		namespace, name, _ := strings.Cut(full, "/")
		service, err := client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case err == nil && len(service.Spec.Selector) > 0:
			return service, nil
		case apierrors.IsForbidden(err): // the cluster DNS may be in another namespace
			if forbidden == nil {
				forbidden = fmt.Errorf("get Service %s: %w", full, err)
			}
		case err != nil && !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("get Service %s: %w", full, err)
		}
	}
	if forbidden != nil {
		return nil, forbidden
	}
	return nil, &UnsupportedError{fmt.Sprintf("none of the Services %s exists with a selector", strings.Join(names, ", "))}
}

// findWorkload returns the Deployment or DaemonSet whose Pods a Service selects.
func findWorkload(ctx context.Context, client kubernetes.Interface, service *corev1.Service) (*Workload, error) {
	deployments, err := client.AppsV1().Deployments(service.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list Deployments in namespace %s: %w", service.Namespace, err)
	}
	daemonSets, err := client.AppsV1().DaemonSets(service.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list DaemonSets in namespace %s: %w", service.Namespace, err)
	}
	var found []*Workload
	for i := range deployments.Items {
		found = append(found, ofDeployment(&deployments.Items[i]))
	}
	for i := range daemonSets.Items {
		found = append(found, ofDaemonSet(&daemonSets.Items[i]))
	}
	selector := labels.SelectorFromSet(service.Spec.Selector)
	found = slices.DeleteFunc(found, func(w *Workload) bool { return !selector.Matches(labels.Set(w.Template.Labels)) })
	switch len(found) {
	case 0:
		return nil, &UnsupportedError{fmt.Sprintf("no Deployment or DaemonSet has the Pods of Service %s/%s: DNS is served by another Service, or not by Pods of this cluster", service.Namespace, service.Name)}
	case 1:
		return found[0], nil
	}
	return nil, fmt.Errorf("Service %s/%s selects the Pods of both %s and %s: choose a Service that selects those of CoreDNS only with --service", service.Namespace, service.Name, found[0], found[1]) //nolint:staticcheck // the kind of an object is capitalized
}

func ofDeployment(d *appsv1.Deployment) *Workload {
	replicas := int32(1)
	if d.Spec.Replicas != nil {
		replicas = *d.Spec.Replicas
	}
	status := d.Status
	return &Workload{
		Kind: "Deployment", Namespace: d.Namespace, Name: d.Name, Selector: d.Spec.Selector, Template: d.Spec.Template,
		RolledOut: status.ObservedGeneration >= d.Generation && status.UpdatedReplicas >= replicas && status.Replicas == status.UpdatedReplicas,
	}
}

const kindDaemonSet = "DaemonSet"

func ofDaemonSet(d *appsv1.DaemonSet) *Workload {
	status := d.Status
	return &Workload{
		Kind: kindDaemonSet, Namespace: d.Namespace, Name: d.Name, Selector: d.Spec.Selector, Template: d.Spec.Template,
		RolledOut: status.ObservedGeneration >= d.Generation && status.UpdatedNumberScheduled == status.DesiredNumberScheduled,
	}
}

// Pods are the Pods of CoreDNS.
type Pods struct {
	// Ready are those to which the Service sends queries, and NotReady those that are
	// starting, failing, or on a node that does not answer.
	Ready, NotReady []string
	// RolledOut is true if they are those of the current template.
	RolledOut bool
}

// ListPods returns the Pods of CoreDNS that are not about to end.
func ListPods(ctx context.Context, client kubernetes.Interface, s *Setup) (Pods, error) {
	w, err := getWorkload(ctx, client, s.Workload)
	if err != nil {
		return Pods{}, fmt.Errorf("get %s: %w", s.Workload, err)
	}
	selector, err := metav1.LabelSelectorAsSelector(s.Workload.Selector)
	if err != nil {
		return Pods{}, err
	}
	list, err := client.CoreV1().Pods(s.Workload.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		return Pods{}, fmt.Errorf("list Pods in namespace %s: %w", s.Workload.Namespace, err)
	}
	return sortPods(list.Items, w.RolledOut), nil
}

func sortPods(list []corev1.Pod, rolledOut bool) Pods {
	pods := Pods{RolledOut: rolledOut}
	for i := range list {
		pod := &list[i]
		ready := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
		switch {
		case pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		case ready && pod.Status.Phase == corev1.PodRunning:
			pods.Ready = append(pods.Ready, pod.Name)
		default:
			pods.NotReady = append(pods.NotReady, pod.Name)
		}
	}
	slices.Sort(pods.Ready)
	slices.Sort(pods.NotReady)
	return pods
}

// getWorkload returns the present state of a workload.
func getWorkload(ctx context.Context, client kubernetes.Interface, w *Workload) (*Workload, error) {
	if w.Kind == kindDaemonSet {
		d, err := client.AppsV1().DaemonSets(w.Namespace).Get(ctx, w.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return ofDaemonSet(d), nil
	}
	d, err := client.AppsV1().Deployments(w.Namespace).Get(ctx, w.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return ofDeployment(d), nil
}
