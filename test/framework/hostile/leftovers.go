// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
)

// Victim is a cluster that read hostile members.
type Victim struct {
	Kubernetes kubernetes.Interface
	Clientset  versioned.Interface
}

// The namespaces of mcs-apiserver.
const (
	installationNamespace = "mcs-system"
	storageNamespace      = "mcs-storage"
)

// Leftovers returns what there is of former members but what is deleted last: Members, exports,
// imports, derived Services without an import, imported EndpointSlices, and records.
func (v Victim) Leftovers(ctx context.Context, ids ...string) ([]string, error) {
	var left []string
	for _, find := range []func(context.Context, []string) ([]string, error){v.members, v.exports, v.imports, v.slices, v.records} {
		found, err := find(ctx, ids)
		if err != nil {
			return nil, err
		}
		left = append(left, found...)
	}
	return left, nil
}

// Last returns the Leases and ClusterProfiles of former members, which are deleted last.
func (v Victim) Last(ctx context.Context, ids ...string) ([]string, error) {
	list, err := v.Kubernetes.CoordinationV1().Leases(installationNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var left []string
	for _, lease := range list.Items {
		if id, ok := strings.CutPrefix(lease.Name, "member-"); ok && slices.Contains(ids, id) {
			left = append(left, "Lease "+lease.Name)
		}
	}
	profiles, err := v.Clientset.MulticlusterXV1alpha1().ClusterProfiles(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, profile := range profiles.Items {
		if slices.Contains(ids, profile.Name) {
			left = append(left, "ClusterProfile "+profile.Name)
		}
	}
	return left, nil
}

func (v Victim) members(ctx context.Context, ids []string) (left []string, err error) {
	list, err := v.Clientset.ClusterSetV1alpha1().Members().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, member := range list.Items {
		if mentions(ids, member.Name) {
			left = append(left, "Member "+member.Name)
		}
	}
	return left, nil
}

func (v Victim) exports(ctx context.Context, ids []string) (left []string, err error) {
	list, err := v.Clientset.ClusterSetV1alpha1().ExportedServices("").List(ctx, from(ids))
	if err != nil {
		return nil, err
	}
	for _, service := range list.Items {
		left = append(left, "ExportedService "+service.Name)
	}
	return left, nil
}

// imports returns the imports of the members, and derived Services without an import.
func (v Victim) imports(ctx context.Context, ids []string) (left []string, err error) {
	imports, err := v.Clientset.MulticlusterXV1beta1().ServiceImports("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	derived := map[string]bool{}
	for _, found := range imports.Items {
		derived[multicluster.DerivedServiceName(found.Namespace, found.Name)] = true
		if slices.ContainsFunc(found.Status.Clusters, func(cluster multiclusterxv1beta1.ClusterStatus) bool { return slices.Contains(ids, cluster.Cluster) }) {
			left = append(left, "ServiceImport "+found.Name)
		}
	}
	services, err := v.Kubernetes.CoreV1().Services("").List(ctx, metav1.ListOptions{LabelSelector: multicluster.ServiceNameLabel})
	if err != nil {
		return nil, err
	}
	for _, service := range services.Items {
		if !derived[service.Name] {
			left = append(left, "derived Service "+service.Name)
		}
	}
	return left, nil
}

func (v Victim) slices(ctx context.Context, ids []string) (left []string, err error) {
	list, err := v.Kubernetes.DiscoveryV1().EndpointSlices("").List(ctx, from(ids))
	if err != nil {
		return nil, err
	}
	for _, slice := range list.Items {
		left = append(left, "imported EndpointSlice "+slice.Name)
	}
	return left, nil
}

func (v Victim) records(ctx context.Context, ids []string) (left []string, err error) {
	list, err := v.Kubernetes.CoreV1().ConfigMaps(storageNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, record := range list.Items {
		if isProfile := strings.Contains(record.Data["key"], "/clusterprofiles"); !isProfile && (mentions(ids, record.Name) || mentions(ids, record.Data["key"])) {
			left = append(left, "record "+record.Name)
		}
	}
	return left, nil
}

// from selects objects of clusters.
func from(ids []string) metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: fmt.Sprintf("%s in (%s)", multicluster.SourceClusterLabel, strings.Join(ids, ","))}
}

func mentions(ids []string, text string) bool {
	return slices.ContainsFunc(ids, func(id string) bool { return strings.Contains(text, id) })
}
