// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package attachment observes and changes whether the API of mcs-apiserver is
// registered with a cluster. It requires nothing of mcs-apiserver and
// mcs-controller, which may both be down.
package attachment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	aggregator "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/printer"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apiconflict"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/install"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned/scheme"
)

const (
	// service is the name of the Service that the APIServices refer to.
	service = "mcs-apiserver"
	// nameLabel is the label of objects of mcs-apiserver, with the name of the Service.
	nameLabel = "app.kubernetes.io/name"
	// DefaultNamespace is used if nothing shows where mcs-apiserver is installed.
	DefaultNamespace = "mcs-system"
	// observeTimeout limits how long the observation may take, unless the user sets a
	// timeout.
	observeTimeout = 30 * time.Second
	pollInterval   = 500 * time.Millisecond
)

var advice = cluster.Advice{
	Forbidden:   "detach and attach require permission to change APIServices, to list and delete CustomResourceDefinitions, and to change ConfigMaps in the namespace of mcs-apiserver",
	ServerError: cluster.KubernetesAdminAdvice.ServerError,
}

// Attachment is the registration of the API with one cluster.
type Attachment struct {
	*cluster.Cluster
	// Namespace is the namespace of the installation.
	Namespace string
	// Registered are the names of the APIServices of mcs-apiserver.
	Registered []string
	// Published are the names of the CustomResourceDefinitions that mcs-controller published.
	// Without APIServices, the kube-apiserver would serve them, without any objects.
	Published []string
	// Detached is true if mcs-controller must not register the API.
	Detached bool
	// NamespaceGone is true if the namespace is being deleted, or does not exist: no ConfigMap
	// can be created in it, and nothing is left in it that registers the API.
	NamespaceGone bool

	aggregator  aggregator.Interface
	definitions metadata.ResourceInterface
}

// Observe observes the cluster of a context.
func Observe(ctx context.Context, f *cluster.Factory, name string) (*Attachment, error) {
	c, err := f.ForContext(name)
	if err != nil {
		return nil, err
	}
	ctx, cancel, err := f.WithTimeout(ctx, observeTimeout)
	defer cancel()
	if err != nil {
		return nil, err
	}
	client, err := aggregator.NewForConfig(c.Config)
	if err != nil {
		return nil, fmt.Errorf("context %q: %w", c.Context, err)
	}
	definitions, err := metadata.NewForConfig(c.Config)
	if err != nil {
		return nil, fmt.Errorf("context %q: %w", c.Context, err)
	}
	a := &Attachment{Cluster: c, aggregator: client, definitions: definitions.Resource(apiconflict.CRDResource)}
	states, err := a.list(ctx)
	if err != nil {
		return nil, c.WrapError(err, advice)
	}
	if a.Published, err = a.published(ctx); err != nil {
		return nil, c.WrapError(err, advice)
	}
	for _, state := range states {
		a.Registered, a.Namespace = append(a.Registered, state.name), state.namespace
	}
	slices.Sort(a.Registered)
	// The namespace is unknown while nothing is registered.
	marks, err := c.Kubernetes.CoreV1().ConfigMaps(a.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, clusterset.DetachedConfigMap).String(),
	})
	if err != nil {
		return nil, c.WrapError(err, advice)
	}
	for i := range marks.Items {
		a.Detached, a.Namespace = true, marks.Items[i].Namespace
	}
	if a.Namespace == "" {
		if a.Namespace, err = a.installed(ctx); err != nil {
			return nil, c.WrapError(err, advice)
		}
	}
	namespace, err := c.Kubernetes.CoreV1().Namespaces().Get(ctx, a.Namespace, metav1.GetOptions{})
	// A user who may not read namespaces may still create the ConfigMap.
	a.NamespaceGone = cluster.IsObjectNotFound(err) || err == nil && namespace.DeletionTimestamp != nil
	return a, nil
}

// installed returns the namespace of the Deployment of mcs-apiserver, which exists although
// nothing is registered, for example because another server serves a part of the API.
func (a *Attachment) installed(ctx context.Context) (string, error) {
	deployments, err := a.Kubernetes.AppsV1().Deployments(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: nameLabel + "=" + service})
	switch {
	case apierrors.IsForbidden(err):
		return DefaultNamespace, nil // a user who may not list Deployments may still create the ConfigMap
	case err != nil:
		return "", err
	case len(deployments.Items) != 1:
		return DefaultNamespace, nil
	}
	return deployments.Items[0].Namespace, nil
}

// InstalledIn returns the namespace of the Service to which the registered APIServices refer, and
// DefaultNamespace if none is registered or they cannot be listed. Labels say nothing about it: users
// of any namespace may set them, but only administrators write APIServices.
func InstalledIn(ctx context.Context, client aggregator.Interface) (string, error) {
	states, err := (&Attachment{aggregator: client}).list(ctx)
	if err != nil {
		states = nil // what cannot be read in the namespace is reported
	}
	if len(states) == 0 {
		return DefaultNamespace, nil
	}
	var namespaces []string
	for _, state := range states {
		namespaces = append(namespaces, state.namespace)
	}
	slices.Sort(namespaces)
	switch namespaces = slices.Compact(namespaces); {
	case len(namespaces) > 1:
		return "", fmt.Errorf("the APIServices of mcs-apiserver refer to several namespaces: %s", strings.Join(namespaces, ", "))
	case len(validation.IsDNS1123Label(namespaces[0])) > 0: // it becomes a part of paths and commands
		return "", fmt.Errorf("the APIServices of mcs-apiserver refer to namespace %q, which is not valid", namespaces[0])
	}
	return namespaces[0], nil
}

// Mark returns the ConfigMap that detaches the API.
func (a *Attachment) Mark() string { return a.Namespace + "/" + clusterset.DetachedConfigMap }

// SetMark prevents mcs-controller from registering the API.
func (a *Attachment) SetMark(ctx context.Context) error {
	_, err := a.Kubernetes.CoreV1().ConfigMaps(a.Namespace).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: clusterset.DetachedConfigMap, Labels: map[string]string{nameLabel: service}},
		Data: map[string]string{"README": "While this ConfigMap exists, mcs-controller does not register the API of mcs-apiserver.\n" +
			"Run `kubectl mcs attach` or delete the ConfigMap to register the API again.\n"},
	}, metav1.CreateOptions{})
	switch {
	case err == nil, apierrors.IsAlreadyExists(err):
		return nil
	case apierrors.IsNotFound(err):
		return fmt.Errorf("context %q: mcs-apiserver is not installed: namespace %q does not exist", a.Context, a.Namespace)
	}
	return a.WrapError(err, advice)
}

// RemoveMark lets mcs-controller register the API.
func (a *Attachment) RemoveMark(ctx context.Context) error {
	err := a.Kubernetes.CoreV1().ConfigMaps(a.Namespace).Delete(ctx, clusterset.DetachedConfigMap, metav1.DeleteOptions{})
	if err != nil && !cluster.IsObjectNotFound(err) {
		return a.WrapError(err, advice)
	}
	return nil
}

// published returns the names of the CustomResourceDefinitions that mcs-controller published.
func (a *Attachment) published(ctx context.Context) ([]string, error) {
	list, err := a.definitions.List(ctx, metav1.ListOptions{LabelSelector: labels.SelectorFromSet(apiconflict.RegisteredLabels).String()})
	if apierrors.IsNotFound(err) {
		return nil, nil // a server without CustomResourceDefinitions
	} else if err != nil {
		return nil, err
	}
	var names []string
	for i := range list.Items {
		if apiconflict.IsPublished(&list.Items[i]) && slices.Contains(apiconflict.PublishedCRDs, list.Items[i].Name) {
			names = append(names, list.Items[i].Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// Unpublish deletes the CustomResourceDefinitions that mcs-controller published, and waits
// until they are gone.
func (a *Attachment) Unpublish(ctx context.Context) error {
	for _, name := range a.Published {
		if err := a.definitions.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !cluster.IsObjectNotFound(err) {
			return a.WrapError(err, advice)
		}
	}
	err := wait.PollUntilContextTimeout(ctx, pollInterval, observeTimeout, true, func(ctx context.Context) (bool, error) {
		left, err := a.published(ctx)
		return err == nil && len(left) == 0, nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return fmt.Errorf("context %q: CustomResourceDefinitions %s are not deleted after %s; see their conditions with `kubectl describe crd`", a.Context, strings.Join(a.Published, ", "), observeTimeout)
	}
	return err
}

// Unregister deletes the APIServices.
func (a *Attachment) Unregister(ctx context.Context) error {
	for _, name := range a.Registered {
		err := a.aggregator.ApiregistrationV1().APIServices().Delete(ctx, name, metav1.DeleteOptions{})
		if err != nil && !cluster.IsObjectNotFound(err) {
			return a.WrapError(err, advice)
		}
	}
	return nil
}

// WaitUntilAvailable waits until mcs-controller has registered the API and
// mcs-apiserver serves it.
func (a *Attachment) WaitUntilAvailable(ctx context.Context, timeout time.Duration) error {
	problem := errors.New("no response from the kube-apiserver")
	err := wait.PollUntilContextTimeout(ctx, pollInterval, timeout, true, func(ctx context.Context) (bool, error) {
		states, err := a.list(ctx)
		switch {
		case err == nil:
			problem = unavailable(required(), states)
		case ctx.Err() == nil: // an expired deadline tells less than the problem before it
			problem = cluster.Diagnose(a.Context, err, advice)
		}
		return problem == nil, nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return fmt.Errorf("context %q: API is not available after %s: %w", a.Context, timeout, problem)
	}
	return err
}

// Unavailable returns why the API is not available, nil if it is.
func (a *Attachment) Unavailable(ctx context.Context) error {
	states, err := a.list(ctx)
	if err != nil {
		return a.WrapError(err, advice)
	}
	return unavailable(required(), states)
}

// Conflicts returns messages about what serves a part of the API instead of mcs-apiserver, and
// the names of CustomResourceDefinitions that mcs-apiserver hides, sorted.
func (a *Attachment) Conflicts(ctx context.Context) (conflicts, hidden []string, err error) {
	registered, err := a.aggregator.ApiregistrationV1().APIServices().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, a.WrapError(err, advice)
	}
	names, err := metadata.NewForConfig(a.Config)
	if err != nil {
		return nil, nil, err
	}
	objects, err := dynamic.NewForConfig(a.Config)
	if err != nil {
		return nil, nil, err
	}
	crds, err := apiconflict.CRDsServing(ctx, names, objects, served()...)
	if err != nil {
		return nil, nil, a.WrapError(err, advice)
	}
	ours := types.NamespacedName{Namespace: a.Namespace, Name: service}
	for _, gv := range served() {
		for i := range registered.Items {
			item := &registered.Items[i]
			if item.Name != apiconflict.APIServiceName(gv) {
				continue
			}
			var refersTo *types.NamespacedName
			if item.Spec.Service != nil {
				refersTo = &types.NamespacedName{Namespace: item.Spec.Service.Namespace, Name: item.Spec.Service.Name}
			}
			switch owner := apiconflict.Find(item.Labels, refersTo, ours); {
			case owner != apiconflict.Owner{} && apiconflict.GivesWay(gv): // which is no conflict
			case owner != apiconflict.Owner{}:
				conflicts = append(conflicts, apiconflict.Refusal(gv, owner, crds[gv]))
			case refersTo != nil:
				hidden = append(hidden, slices.DeleteFunc(crds[gv], func(name string) bool { return slices.Contains(a.Published, name) })...)
			}
		}
	}
	slices.Sort(hidden)
	return conflicts, slices.Compact(hidden), nil
}

// served returns the group-versions that mcs-apiserver serves.
func served() []schema.GroupVersion {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	return slices.DeleteFunc(scheme.PrioritizedVersionsAllGroups(), func(gv schema.GroupVersion) bool {
		return gv.Group == "" // options and Status, which are in every scheme
	})
}

// apiService is the state of an APIService of mcs-apiserver.
type apiService struct {
	name, namespace string
	// problem is why the API is not available.
	problem string
}

func (a *Attachment) list(ctx context.Context) ([]apiService, error) {
	list, err := a.aggregator.ApiregistrationV1().APIServices().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var states []apiService
	for i := range list.Items {
		item := &list.Items[i]
		if item.Spec.Service == nil || item.Spec.Service.Name != service {
			continue
		}
		state := apiService{name: item.Name, namespace: item.Spec.Service.Namespace, problem: "not checked by the kube-apiserver yet"}
		for _, condition := range item.Status.Conditions {
			if condition.Type != "Available" {
				continue
			}
			if state.problem = ""; condition.Status != "True" {
				state.problem = printer.Escape(condition.Message)
			}
		}
		states = append(states, state)
	}
	return states, nil
}

// required returns the names of the APIServices that this program uses.
func required() []string {
	var names []string
	for _, gv := range scheme.Scheme.PrioritizedVersionsAllGroups() {
		if gv.Group != "" { // options and Status, which are in every scheme
			names = append(names, gv.Version+"."+gv.Group)
		}
	}
	slices.Sort(names)
	return names
}

// unavailable returns why the API is not available.
func unavailable(required []string, states []apiService) error {
	for _, name := range required {
		if !slices.ContainsFunc(states, func(state apiService) bool { return state.name == name }) {
			return fmt.Errorf("APIService %s does not exist, because mcs-controller is not running or refused to register it", name)
		}
	}
	for _, state := range states {
		if state.problem != "" {
			return fmt.Errorf("APIService %s is not available: %s", state.name, state.problem)
		}
	}
	return nil
}
