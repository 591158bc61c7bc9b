// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package membertest has the objects and the server of a member for the tests
// of the packages that read members.
package membertest

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	multiclusterv1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/identity"
)

// Epoch is when all clusters joined.
var Epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Self is the cluster that the members are read from.
var Self = identity.Cluster{ID: "a", ClusterSet: "set", IDClaimedAt: Epoch, UID: "uid-a", Since: Epoch}

// timeout is how long a test waits for what ought to happen at once.
const timeout = 30 * time.Second

// Eventually waits for a condition.
func Eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, timeout, true, func(context.Context) (bool, error) { return condition(), nil })
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// Must fails the test on an error.
func Must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Change changes the status of an entry.
type Change = func(*clustersetv1alpha1.MemberStatus)

// Entry returns a cluster's own entry: synced, without exports.
func Entry(id string, changes ...Change) clustersetv1alpha1.Member {
	entry := clustersetv1alpha1.Member{
		ObjectMeta: metav1.ObjectMeta{Name: id},
		Status: clustersetv1alpha1.MemberStatus{
			ClusterID: id, ClusterUID: types.UID("uid-" + id), ClusterSet: "set", Peers: []string{"a"}, Synced: true,
			State: clustersetv1alpha1.MemberState(clusterset.MemberLocal),
		},
	}
	for _, change := range changes {
		change(&entry.Status)
	}
	return entry
}

// RelayedEntry returns a hub's entry of a cluster that it is connected to.
func RelayedEntry(id string, changes ...Change) clustersetv1alpha1.Member {
	entry := Entry(id, changes...)
	entry.Status.State = clustersetv1alpha1.MemberState(clusterset.MemberConnected)
	entry.Status.Peers = nil
	return entry
}

// Exports sets the counts of an entry.
func Exports(n int32) Change {
	return func(s *clustersetv1alpha1.MemberStatus) { s.Exports, s.Endpoints = n, n }
}

// WithUID sets the UID of an entry's cluster.
func WithUID(uid types.UID) Change {
	return func(s *clustersetv1alpha1.MemberStatus) { s.ClusterUID = uid }
}

// ExportedService returns a Service as a cluster exports it.
func ExportedService(cluster, service string, path ...string) *clustersetv1alpha1.ExportedService {
	return &clustersetv1alpha1.ExportedService{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: clusterset.ObjectName(service, cluster), UID: "uid", ResourceVersion: "7",
			CreationTimestamp: metav1.NewTime(Epoch), Labels: clusterset.SourceLabels(cluster, service),
		},
		Spec: clustersetv1alpha1.ExportedServiceSpec{
			Cluster: cluster, Service: service, ExportedAt: metav1.NewTime(Epoch), Type: "ClusterSetIP",
			Ports:      []clustersetv1alpha1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}},
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, Path: path,
		},
	}
}

// ExportedSlice returns an EndpointSlice with two endpoints as a cluster exports it.
func ExportedSlice(cluster, service, name string, path ...string) *clustersetv1alpha1.ExportedEndpointSlice {
	return &clustersetv1alpha1.ExportedEndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: clusterset.ObjectName(name, cluster), UID: "uid", Labels: clusterset.SourceLabels(cluster, service),
		},
		Spec: clustersetv1alpha1.ExportedEndpointSliceSpec{
			Cluster: cluster, Service: service, AddressType: discoveryv1.AddressTypeIPv4, Path: path,
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}, {Addresses: []string{"10.0.0.2"}}},
		},
	}
}

// ClusterClaim returns a claim that was created at a time.
func ClusterClaim(name, value string, at time.Time) *multiclusterv1.ClusterClaim {
	return &multiclusterv1.ClusterClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "multicluster.k8s.io/v1", Kind: "ClusterClaim"},
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1", CreationTimestamp: metav1.NewTime(at)}, Spec: multiclusterv1.ClusterClaimSpec{Value: value},
	}
}

// Cluster is the cluster of a valid kubeconfig.
const Cluster = `server: https://b.example:6443`

// Kubeconfig returns a kubeconfig with one context. cluster and user are lines of YAML.
func Kubeconfig(cluster, user string) string {
	return `apiVersion: v1
kind: Config
current-context: it
contexts:
- {name: it, context: {cluster: it, user: it}}
clusters:
- name: it
  cluster:
    ` + strings.ReplaceAll(cluster, "\n", "\n    ") + `
users:
- name: it
  user:
    ` + strings.ReplaceAll(user, "\n", "\n    ") + "\n"
}

// ValidKubeconfig returns a kubeconfig that leads to a server that does not exist.
func ValidKubeconfig() string { return Kubeconfig(Cluster, "token: secret") }

// Secret returns the member Secret of a cluster.
func Secret(id, kubeconfig string, changes ...func(*corev1.Secret)) *corev1.Secret {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "member-" + id, UID: "secret-uid", CreationTimestamp: metav1.NewTime(Epoch)},
		Type:       clusterset.MemberSecretType,
		Data:       map[string][]byte{clusterset.MemberSecretClusterID: []byte(id), clusterset.MemberSecretKubeconfig: []byte(kubeconfig)},
	}
	for _, change := range changes {
		change(secret)
	}
	return secret
}

// With sets a key of a Secret.
func With(key, value string) func(*corev1.Secret) {
	return func(s *corev1.Secret) { s.Data[key] = []byte(value) }
}
