// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	aggregator "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/attachment"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/installation"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/preflight"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/diagnosis"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/peertoken"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/secret"
)

const (
	// observeTimeout limits how long it may take to read everything in one cluster, unless the user
	// sets a timeout.
	observeTimeout = 30 * time.Second
	installed      = "app.kubernetes.io/name=mcs-apiserver"
	controller     = "mcs-controller"
)

// Advice for what may not be read, by API. Not to be allowed to read something is no problem.
var (
	permissions      = "ask for this permission to have it checked"
	kubernetesAdvice = cluster.Advice{Forbidden: permissions, ServerError: cluster.KubernetesUserAdvice.ServerError}
	mcsAdvice        = cluster.Advice{Forbidden: permissions, ServerError: cluster.MCSUserAdvice.ServerError}
)

// observer observes one cluster.
type observer struct {
	*cluster.Cluster
	namespace, service string
	// podLabels are those of the Pod that tries to connect.
	podLabels labels.Set
	// registrations has the APIServices, which tell where mcs-apiserver is installed.
	registrations aggregator.Interface
}

// observe reads everything about a cluster. The error is for wrong flags.
func observe(ctx context.Context, f *cluster.Factory, o *observer, importing bool) (diagnosis.Cluster, error) {
	c := o.Cluster
	found := diagnosis.Cluster{Context: c.Context}
	reading, cancel, err := f.WithTimeout(ctx, observeTimeout)
	defer cancel()
	if err != nil {
		return found, err
	}
	if o.registrations, err = aggregator.NewForConfig(c.Config); err != nil {
		return found, fmt.Errorf("context %q: %w", c.Context, err)
	}
	var group errgroup.Group
	group.Go(func() (err error) { // takes longest, and writes nothing else
		found.Host, err = preflight.ObserveHost(ctx, f, c, importing, kubernetesAdvice)
		if found.Host.Silent {
			cancel() // clients repeat requests to servers that close connections, again and again
		}
		return err
	})
	group.Go(func() error {
		o.installation(reading, &found)
		if o.service != "" {
			found.Path = o.path(reading, importing)
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		return found, err
	}
	if found.Host.Silent {
		found.Silent = found.Host.Failure
	}
	return found, nil
}

// read returns what was read, or why it could not be.
func read[T any](o *observer, advice cluster.Advice, value T, err error) diagnosis.Read[T] {
	if err == nil {
		return diagnosis.Of(value)
	}
	failed := diagnosis.Failed[T](cluster.Diagnose(o.Context, err, advice).Error())
	failed.Unserved = isUnserved(err)
	return failed
}

// isUnserved reports whether an API does not exist, or its server does not answer.
func isUnserved(err error) bool {
	var status apierrors.APIStatus
	return apierrors.IsNotFound(err) && !cluster.IsObjectNotFound(err) || errors.As(err, &status) && status.Status().Code >= 500
}

// readObject is like read, but an object that does not exist is nil.
func readObject[T any](o *observer, advice cluster.Advice, value *T, err error) diagnosis.Read[*T] {
	if cluster.IsObjectNotFound(err) {
		return diagnosis.Of[*T](nil)
	}
	return read(o, advice, value, err)
}

// installation reads what does not depend on a service.
func (o *observer) installation(ctx context.Context, found *diagnosis.Cluster) {
	members, err := o.MCS.ClusterSetV1alpha1().Members().List(ctx, metav1.ListOptions{})
	var entries []clustersetv1alpha1.Member
	if err == nil {
		entries = members.Items
	}
	found.Members = read(o, mcsAdvice, entries, err)
	namespace, err := attachment.InstalledIn(ctx, o.registrations)
	if err != nil {
		found.Deployment, found.Lease, found.Credentials = diagnosis.Failed[*diagnosis.Deployment](err.Error()), diagnosis.Failed[*diagnosis.Lease](err.Error()), diagnosis.Failed[[]diagnosis.Credential](err.Error())
		return
	}
	found.InstalledIn, found.Deployment = namespace, o.deployment(ctx, namespace)
	found.Lease = o.lease(ctx, namespace)
	found.Credentials = o.credentials(ctx, namespace)
}

// deployment reads the Deployment of mcs-apiserver. Those of other namespaces may be anything, and the image
// of mcs-controller runs in the namespace of the service.
func (o *observer) deployment(ctx context.Context, namespace string) diagnosis.Read[*diagnosis.Deployment] {
	list, err := o.Kubernetes.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{LabelSelector: installed})
	if err != nil {
		return read[*diagnosis.Deployment](o, kubernetesAdvice, nil, err)
	}
	for i := range list.Items {
		deployment := &list.Items[i]
		// Its name becomes a part of commands, and is what the cluster says.
		if installation.Image(deployment) != "" && deployment.Namespace == namespace && len(validation.IsDNS1123Subdomain(deployment.Name)) == 0 {
			return diagnosis.Of(o.describe(ctx, deployment))
		}
	}
	return diagnosis.Of[*diagnosis.Deployment](nil)
}

// describe describes the installation. Why replicas are not ready is unknown to users who may not read
// Pods and Events.
func (o *observer) describe(ctx context.Context, deployment *appsv1.Deployment) *diagnosis.Deployment {
	found := &diagnosis.Deployment{
		Namespace: deployment.Namespace, Name: deployment.Name, Image: installation.Image(deployment),
		NodeSelector: deployment.Spec.Template.Spec.NodeSelector, Tolerations: deployment.Spec.Template.Spec.Tolerations,
		Replicas: ptr.Deref(deployment.Spec.Replicas, 1), Ready: deployment.Status.ReadyReplicas,
	}
	if found.Ready >= found.Replicas {
		return found
	}
	if pods, err := o.Kubernetes.CoreV1().Pods(deployment.Namespace).List(ctx, metav1.ListOptions{LabelSelector: installed}); err == nil {
		for i := range pods.Items {
			if why := whyNotReady(&pods.Items[i]); why != "" {
				found.UnreadyBecauseOf = fmt.Sprintf("Pod %s: %s", pods.Items[i].Name, why)
			}
		}
	}
	events, err := o.Kubernetes.CoreV1().Events(deployment.Namespace).List(ctx, metav1.ListOptions{FieldSelector: fields.Set{
		"involvedObject.kind": "Deployment", "involvedObject.name": deployment.Name, "type": corev1.EventTypeWarning,
	}.String()})
	if err != nil {
		return found
	}
	var latest time.Time
	for i := range events.Items {
		event := &events.Items[i]
		if event.Type != corev1.EventTypeWarning || event.InvolvedObject.Name != deployment.Name || timeOf(event).Before(latest) {
			continue
		}
		latest, found.Reason, found.Message = timeOf(event), event.Reason, event.Message
	}
	return found
}

// timeOf returns when an Event happened last.
func timeOf(event *corev1.Event) time.Time {
	switch {
	case event.Series != nil:
		return event.Series.LastObservedTime.Time
	case !event.LastTimestamp.IsZero():
		return event.LastTimestamp.Time
	case !event.EventTime.IsZero():
		return event.EventTime.Time
	}
	return event.CreationTimestamp.Time
}

// whyNotReady returns why a Pod does not run, or is not ready; empty if it is.
func whyNotReady(pod *corev1.Pod) string {
	for _, container := range pod.Status.ContainerStatuses {
		switch state := container.State; {
		case state.Waiting != nil && state.Waiting.Reason != "ContainerCreating":
			return strings.TrimSuffix(fmt.Sprintf("container %s: %s: %s", container.Name, state.Waiting.Reason, state.Waiting.Message), ": ")
		case state.Terminated != nil:
			return fmt.Sprintf("container %s ended with exit code %d", container.Name, state.Terminated.ExitCode)
		}
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Status == corev1.ConditionFalse && (condition.Type == corev1.PodScheduled || condition.Type == corev1.PodReady) && condition.Message != "" {
			return condition.Message
		}
	}
	return ""
}

// lease reads the Lease of mcs-controller.
func (o *observer) lease(ctx context.Context, namespace string) diagnosis.Read[*diagnosis.Lease] {
	readAt := time.Now()
	lease, err := o.Kubernetes.CoordinationV1().Leases(namespace).Get(ctx, controller, metav1.GetOptions{})
	switch {
	case err != nil:
		return readObject[diagnosis.Lease](o, kubernetesAdvice, nil, err)
	case lease.Spec.RenewTime == nil:
		return diagnosis.Of[*diagnosis.Lease](nil)
	}
	return diagnosis.Of(&diagnosis.Lease{
		Namespace: namespace, Name: lease.Name, Holder: ptr.Deref(lease.Spec.HolderIdentity, ""), Renewed: lease.Spec.RenewTime.Time, ReadAt: readAt,
		Duration: time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second,
	})
}

// credentials reads when the tokens of members expire: those in member Secrets, and those to which
// mcs-controller renewed them. Other credentials do not tell.
func (o *observer) credentials(ctx context.Context, namespace string) diagnosis.Read[[]diagnosis.Credential] {
	members, err := o.Kubernetes.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{FieldSelector: clusterset.MemberSecretSelector()})
	if err != nil {
		return read[[]diagnosis.Credential](o, kubernetesAdvice, nil, err)
	}
	renewals, err := o.Kubernetes.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{FieldSelector: clusterset.RenewedSecretSelector()})
	if err != nil {
		return read[[]diagnosis.Credential](o, kubernetesAdvice, nil, err)
	}
	renewed := map[string]*corev1.Secret{}
	for i := range renewals.Items {
		renewed[renewals.Items[i].Name] = &renewals.Items[i]
	}
	var found []diagnosis.Credential
	for i := range members.Items {
		member := &members.Items[i]
		if member.Type != clusterset.MemberSecretType {
			continue
		}
		declared := secret.Parse(member)
		for _, text := range secret.ParseRenewed(renewed[clusterset.RenewedSecretName(member.Name)]).Tokens(declared.Credential, declared.Token) {
			if token, err := peertoken.Parse(text); err == nil {
				found = append(found, diagnosis.Credential{ClusterID: declared.ClusterID, Secret: member.Name, Issued: token.Issued, Expires: token.Expires})
			}
		}
	}
	return diagnosis.Of(found)
}
