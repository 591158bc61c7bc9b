// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
)

// CreateNamespace creates a namespace in all clusters and returns its name. The
// namespace is deleted when the test ends.
func (f *Fleet) CreateNamespace(t *testing.T, name string) string {
	t.Helper()
	return CreateNamespace(t, name, f.Clusters...)
}

// CreateNamespace creates a namespace in the given clusters and returns its
// name. The namespace is deleted when the test ends.
func CreateNamespace(t *testing.T, name string, in ...*Cluster) string {
	t.Helper()
	for _, cluster := range in {
		expect.NoError(t, cluster.Namespace(t.Context(), name))
		t.Cleanup(func() {
			_ = cluster.Kubernetes.CoreV1().Namespaces().Delete(context.Background(), name, metav1.DeleteOptions{})
		})
	}
	return name
}

// ExportService creates a Service with the given endpoints and exports it.
func (c *Cluster) ExportService(t *testing.T, namespace, name string, addresses []string, options ...func(*corev1.Service)) {
	t.Helper()
	expect.Must(c.Service(t.Context(), namespace, name, options...))(t)
	expect.Must(c.EndpointSlice(t.Context(), namespace, name, addresses))(t)
	expect.Must(c.Export(t.Context(), namespace, name))(t)
}

// Import returns a ServiceImport of the cluster.
func (c *Cluster) Import(ctx context.Context, namespace, name string) (*multiclusterxv1beta1.ServiceImport, error) {
	return c.Clientset.MulticlusterXV1beta1().ServiceImports(namespace).Get(ctx, name, metav1.GetOptions{})
}

// Exporters returns the clusters that an import lists, in its order.
func Exporters(serviceImport *multiclusterxv1beta1.ServiceImport) []string {
	var ids []string
	for _, cluster := range serviceImport.Status.Clusters {
		ids = append(ids, cluster.Cluster)
	}
	return ids
}

// AwaitImport waits until the cluster imports a service from exactly the given
// clusters, and returns the import.
func (c *Cluster) AwaitImport(t *testing.T, namespace, name string, from ...string) *multiclusterxv1beta1.ServiceImport {
	t.Helper()
	return c.AwaitImportThat(t, namespace, name, func(found *multiclusterxv1beta1.ServiceImport) error {
		if exporters := Exporters(found); !slices.Equal(exporters, from) {
			return fmt.Errorf("imported from %v, want %v", exporters, from)
		}
		return nil
	})
}

// AwaitImportThat waits until a ServiceImport of the cluster passes a check,
// and returns the import.
func (c *Cluster) AwaitImportThat(t *testing.T, namespace, name string, check func(*multiclusterxv1beta1.ServiceImport) error) *multiclusterxv1beta1.ServiceImport {
	t.Helper()
	var found *multiclusterxv1beta1.ServiceImport
	expect.Eventually(t, fmt.Sprintf("ServiceImport %s/%s in %s", namespace, name, c.ID), func(ctx context.Context) (err error) {
		if found, err = c.Import(ctx, namespace, name); err != nil {
			return err
		}
		return check(found)
	})
	return found
}

// AwaitNoImport waits until the cluster does not import a service.
func (c *Cluster) AwaitNoImport(t *testing.T, namespace, name string) {
	t.Helper()
	expect.Eventually(t, fmt.Sprintf("removal of ServiceImport %s/%s in %s", namespace, name, c.ID), func(ctx context.Context) error {
		switch _, err := c.Import(ctx, namespace, name); {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		return errors.New("ServiceImport still exists")
	})
}

// AwaitRecorded waits until everything that the replicas of the cluster know of its
// members is recorded for a restart. All members must be reachable.
func (c *Cluster) AwaitRecorded(t *testing.T) {
	t.Helper()
	expect.Eventually(t, "records of members in "+c.ID, func(ctx context.Context) error {
		elected, pending := 0.0, 0.0
		for _, replica := range c.APIServers {
			if !replica.Running() {
				continue
			}
			if err := allReachable(ctx, replica); err != nil {
				return err
			}
			one, err := replica.Metric(ctx, "mcs_apiserver_member_records_elected")
			if err != nil {
				return err
			}
			some, err := replica.Metric(ctx, "mcs_apiserver_member_records_pending")
			if err != nil {
				return err
			}
			elected, pending = elected+one, pending+some
		}
		if elected != 1 || pending != 0 {
			return fmt.Errorf("%v replicas are elected, and %v records are pending", elected, pending)
		}
		return nil
	})
}

// allReachable returns an error if a replica does not reach a member: what it only
// recalls of a member is not recorded again.
func allReachable(ctx context.Context, replica *installation.Replica) error {
	config, err := replica.Config()
	if err != nil {
		return err
	}
	client, err := versioned.NewForConfig(config)
	if err != nil {
		return err
	}
	members, err := client.ClusterSetV1alpha1().Members().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, member := range members.Items {
		if member.Status.State != clustersetv1alpha1.MemberLocal && !meta.IsStatusConditionTrue(member.Status.Conditions, clusterset.MemberReachable) {
			return fmt.Errorf("%s does not reach %s", replica.Address, member.Name)
		}
	}
	return nil
}

// AwaitMember waits until a Member of the cluster passes a check.
func (c *Cluster) AwaitMember(t *testing.T, name string, check func(*clustersetv1alpha1.Member) error) {
	t.Helper()
	expect.Eventually(t, fmt.Sprintf("Member %s in %s", name, c.ID), func(ctx context.Context) error {
		found, err := c.Clientset.ClusterSetV1alpha1().Members().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return check(found)
	})
}
