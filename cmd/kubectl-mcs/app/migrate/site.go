// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregator "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apiconflict"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/crdmigration"
)

const (
	service      = "mcs-apiserver"
	pollInterval = 500 * time.Millisecond
)

var advice = cluster.Advice{
	Forbidden: "migrate requires cluster-admin permissions, because it changes CustomResourceDefinitions, APIServices, admission policies and service accounts, " +
		"and gives objects of all namespaces their age",
	ServerError: cluster.KubernetesAdminAdvice.ServerError,
}

// site is a cluster whose CRDs are migrated, as it was observed.
type site struct {
	*cluster.Cluster
	objects    dynamic.Interface
	metadata   metadata.Interface
	aggregator aggregator.Interface
	// namespace is that of the installation.
	namespace string
	// mark is nil if there is none.
	mark *corev1.ConfigMap
	// crds are those of others, by the plural name of their resource.
	crds map[string]*unstructured.Unstructured
	// held are the group-versions that CRDs serve, and ours those that mcs-apiserver does.
	held, ours []schema.GroupVersion
	frozen     bool
	// clusterSet is the one that the cluster is in, if the API that says so is registered.
	clusterSet string
}

// resources are those that CRDs may serve.
func resources() []crdmigration.Resource {
	return append(slices.Clone(crdmigration.Copied), crdmigration.Imports)
}

// observe observes the cluster of a context.
func observe(ctx context.Context, f *cluster.Factory, name string) (*site, error) {
	c, err := f.ForContext(name)
	if err != nil {
		return nil, err
	}
	s := &site{Cluster: c}
	// Servers warn about objects that are copied as they are, and about those of probes.
	silent := rest.CopyConfig(c.Config)
	silent.WarningHandler, silent.WarningHandlerWithContext = rest.NoWarnings{}, nil
	if s.objects, err = dynamic.NewForConfig(silent); err != nil {
		return nil, fmt.Errorf("context %q: %w", name, err)
	}
	if s.metadata, err = metadata.NewForConfig(silent); err != nil {
		return nil, fmt.Errorf("context %q: %w", name, err)
	}
	if s.aggregator, err = aggregator.NewForConfig(c.Config); err != nil {
		return nil, fmt.Errorf("context %q: %w", name, err)
	}
	for _, look := range []func(context.Context) error{s.observeInstallation, s.observeCRDs, s.observeAPIServices, s.observeFreeze, s.observeClusterSet} {
		if err := look(ctx); err != nil {
			return nil, s.WrapError(err, advice)
		}
	}
	return s, nil
}

func (s *site) observeInstallation(ctx context.Context) error {
	list, err := s.Kubernetes.AppsV1().Deployments(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + service})
	if err != nil {
		return err
	}
	switch len(list.Items) {
	case 0:
		return errors.New("mcs-apiserver is not installed: install it first; it does not register what CRDs serve")
	case 1:
		s.namespace = list.Items[0].Namespace
	default:
		return fmt.Errorf("%d Deployments have the label app.kubernetes.io/name=%s: remove the label from those that are not mcs-apiserver", len(list.Items), service)
	}
	s.mark, err = s.Kubernetes.CoreV1().ConfigMaps(s.namespace).Get(ctx, clusterset.MigrationConfigMap, metav1.GetOptions{})
	if cluster.IsObjectNotFound(err) {
		s.mark = nil
		return nil
	}
	return err
}

func (s *site) observeCRDs(ctx context.Context) error {
	s.crds = map[string]*unstructured.Unstructured{}
	for _, resource := range resources() {
		crd, err := s.objects.Resource(apiconflict.CRDResource).Get(ctx, resource.CRD(), metav1.GetOptions{})
		switch {
		case cluster.IsObjectNotFound(err):
		case err != nil:
			return err
		case !apiconflict.IsPublished(crd):
			s.crds[resource.Plural] = crd
		}
	}
	return nil
}

func (s *site) observeAPIServices(ctx context.Context) error {
	s.held, s.ours = nil, nil
	for _, gv := range crdmigration.GroupVersions {
		item, err := s.apiService(ctx, gv)
		switch {
		case cluster.IsObjectNotFound(err):
		case err != nil:
			return err
		case item.Spec.Service == nil:
			s.held = append(s.held, gv)
		case item.Spec.Service.Name == service && item.Spec.Service.Namespace == s.namespace:
			s.ours = append(s.ours, gv)
		default:
			return fmt.Errorf("service %s/%s serves %s: only CustomResourceDefinitions are migrated; uninstall that server first", item.Spec.Service.Namespace, item.Spec.Service.Name, gv)
		}
	}
	return nil
}

func (s *site) apiService(ctx context.Context, gv schema.GroupVersion) (*apiregistrationv1.APIService, error) {
	return s.aggregator.ApiregistrationV1().APIServices().Get(ctx, apiconflict.APIServiceName(gv), metav1.GetOptions{})
}

// observeClusterSet reads the ClusterSet. There is none while the API is not registered.
func (s *site) observeClusterSet(ctx context.Context) error {
	s.clusterSet = ""
	claim, err := s.MCS.MulticlusterV1().ClusterClaims().Get(ctx, multicluster.ClusterSetClaim, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return err
	}
	s.clusterSet = claim.Spec.Value
	return nil
}

// servedBy returns the version in which one of the group-versions serves the objects of a
// resource that has a CRD.
func (s *site) servedBy(resource crdmigration.Resource, groupVersions []schema.GroupVersion) (schema.GroupVersionResource, bool) {
	version, ok := resource.ServedVersion(s.crds[resource.Plural], groupVersions)
	return resource.In(version), ok
}

// list returns all objects of a resource.
func (s *site) list(ctx context.Context, gvr schema.GroupVersionResource) ([]*unstructured.Unstructured, error) {
	list, err := s.objects.Resource(gvr).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", gvr.GroupResource(), err)
	}
	var objects []*unstructured.Unstructured
	for i := range list.Items {
		objects = append(objects, &list.Items[i])
	}
	return objects, nil
}

// oldestExport returns when the oldest ServiceExport of CRDs was created, zero if there is none.
func (s *site) oldestExport(ctx context.Context) (time.Time, error) {
	var oldest time.Time
	gvr, served := s.servedBy(crdmigration.Exports, s.held)
	if !served {
		return oldest, nil
	}
	exports, err := s.list(ctx, gvr)
	for _, export := range exports {
		if at := export.GetCreationTimestamp(); oldest.IsZero() || at.Time.Before(oldest) {
			oldest = at.Time
		}
	}
	return oldest, err
}

// await waits until a condition is true, which returns why it is not.
func (s *site) await(ctx context.Context, timeout time.Duration, what string, condition func(context.Context) error) error {
	var problem error
	err := wait.PollUntilContextTimeout(ctx, pollInterval, timeout, true, func(ctx context.Context) (bool, error) {
		if err := condition(ctx); err == nil || ctx.Err() == nil || problem == nil {
			problem = err
		}
		return problem == nil, nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return fmt.Errorf("context %q: %s after %s: %w", s.Context, what, timeout, cluster.Diagnose(s.Context, problem, advice))
	}
	return err
}

// names lists group-versions.
func names(groupVersions []schema.GroupVersion) string {
	var texts []string
	for _, gv := range groupVersions {
		texts = append(texts, gv.String())
	}
	return strings.Join(texts, ", ")
}
