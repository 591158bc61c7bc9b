// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fleet tests the framework package fleet: clusters reach each other only
// through links, and the replicas of a cluster share their objects.
package fleet

import (
	"context"
	"fmt"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/controlplane"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
)

var clusters *fleet.Fleet

func TestMain(m *testing.M) {
	fleet.Main(m, &clusters, fleet.Config{
		Names: []string{"east", "west"},
		Configure: func(id string, _ *controlplane.Config, installed *installation.Config) {
			if id == "west" {
				installed.Replicas = 2
			}
		},
	})
}

func east() *fleet.Cluster { return clusters.Cluster("east") }
func west() *fleet.Cluster { return clusters.Cluster("west") }

// peerClient returns a client with the credential in a member Secret.
func peerClient(t *testing.T, secret *corev1.Secret) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data[clusterset.MemberSecretKubeconfig])
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// askVersion requests the version with a timeout.
func askVersion(ctx context.Context, client kubernetes.Interface, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return client.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Error()
}

func TestEveryClusterHasItsOwnClaims(t *testing.T) {
	if err := clusters.JoinAll(t.Context(), "everywhere"); err != nil {
		t.Fatal(err)
	}
	for _, cluster := range clusters.Clusters {
		for name, want := range map[string]string{multicluster.ClusterIDClaim: cluster.ID, multicluster.ClusterSetClaim: "everywhere"} {
			claim, err := cluster.Clientset.MulticlusterV1().ClusterClaims().Get(t.Context(), name, metav1.GetOptions{})
			if err != nil || claim.Spec.Value != want {
				t.Errorf("%s: claim value is %q for %s (%v), want %q", cluster.ID, claim.Spec.Value, name, err, want)
			}
		}
		output, err := cluster.Kubectl(t.Context(), "get", "secrets", "-n", installation.Namespace, "--field-selector="+clusterset.MemberSecretSelector(), "-o", "name")
		other := map[string]string{"east": "west", "west": "east"}[cluster.ID]
		if want := "secret/" + clusterset.MemberSecretName(other) + "\n"; err != nil || output != want {
			t.Errorf("members of %s are %q (%v), want %q", cluster.ID, output, err, want)
		}
	}
}

func TestMemberSecretHoldsAPeerCredential(t *testing.T) {
	secret, err := east().Join(t.Context(), west(), map[string][]byte{clusterset.MemberSecretRelayFor: []byte("*")})
	if err != nil {
		t.Fatal(err)
	}
	if string(secret.Data[clusterset.MemberSecretClusterID]) != "west" || string(secret.Data[clusterset.MemberSecretRelayFor]) != "*" || secret.Type != clusterset.MemberSecretType {
		t.Errorf("member Secret is %+v", secret)
	}
	before := east().Links["west"].Received()
	review, err := peerClient(t, secret).AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if want := "system:serviceaccount:mcs-system:peer-east"; review.Status.UserInfo.Username != want {
		t.Errorf("east is %s in west, want %s", review.Status.UserInfo.Username, want)
	}
	if east().Links["west"].Received() == before {
		t.Error("no data was received through the link")
	}
	wrong, err := east().KubeconfigFor(west(), "wrong")
	if err != nil {
		t.Fatal(err)
	}
	if secret, err = east().Join(t.Context(), west(), map[string][]byte{clusterset.MemberSecretKubeconfig: wrong, clusterset.MemberSecretClusterID: nil}); err != nil {
		t.Fatal(err)
	}
	if err := askVersion(t.Context(), peerClient(t, secret), expect.Patience); !apierrors.IsUnauthorized(err) {
		t.Errorf("wrong token: got %v, want Unauthorized", err)
	}
	if _, there := secret.Data[clusterset.MemberSecretClusterID]; there {
		t.Error("Secret has a key that was removed by an override")
	}
	if err := east().Leave(t.Context(), "west"); err != nil {
		t.Fatal(err)
	}
	if _, err := east().Kubernetes.CoreV1().Secrets(installation.Namespace).Get(t.Context(), secret.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("west is still a member: %v", err)
	}
}

// Cutting the link from one cluster to another does not affect the link back.
func TestLinkIsCutInOneDirection(t *testing.T) {
	ctx := t.Context()
	there, err := east().Join(ctx, west(), nil)
	if err != nil {
		t.Fatal(err)
	}
	back, err := west().Join(ctx, east(), nil)
	if err != nil {
		t.Fatal(err)
	}
	toWest, toEast, way := peerClient(t, there), peerClient(t, back), east().Links["west"]
	works := func(client kubernetes.Interface) {
		t.Helper()
		if err := askVersion(ctx, client, expect.Patience); err != nil {
			t.Error(err)
		}
	}
	works(toWest)
	works(toEast)

	way.Cut()
	if err := askVersion(ctx, toWest, expect.Patience); err == nil {
		t.Error("request succeeded although the link is cut")
	}
	works(toEast)
	if err := way.Restore(); err != nil {
		t.Fatal(err)
	}
	works(toWest)

	if err := way.Hang(); err != nil {
		t.Fatal(err)
	}
	if err := askVersion(ctx, toWest, time.Second); err == nil {
		t.Error("request succeeded although the link hangs")
	}
	works(toEast)
	if err := way.Restore(); err != nil {
		t.Fatal(err)
	}
	works(toWest)
}

func TestServiceHasEndpointsWithoutPods(t *testing.T) {
	ctx := t.Context()
	if err := east().Namespace(ctx, "shop"); err != nil {
		t.Fatal(err)
	}
	service, err := east().Service(ctx, "shop", "web", func(service *corev1.Service) {
		service.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyRequireDualStack)
	})
	if err != nil || len(service.Spec.ClusterIPs) != 2 {
		t.Fatalf("cluster IPs are %v (%v), want one per family", service.Spec.ClusterIPs, err)
	}
	for _, addresses := range [][]string{{"10.1.0.1"}, {"10.1.0.1", "10.1.0.2"}, {"fd00::1"}} {
		if _, err := east().EndpointSlice(ctx, "shop", "web", addresses); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := east().EndpointSlice(ctx, "shop", "web", nil); err == nil {
		t.Error("an EndpointSlice without addresses was created")
	}
	slices, err := east().Kubernetes.DiscoveryV1().EndpointSlices("shop").List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=web"})
	if err != nil {
		t.Fatal(err)
	}
	got := map[discoveryv1.AddressType]int{}
	for _, slice := range slices.Items {
		got[slice.AddressType] += len(slice.Endpoints)
		if len(slice.Ports) != 1 || *slice.Ports[0].Name != "http" || *slice.Ports[0].Port != 80 {
			t.Errorf("%s has ports %+v, want those of the Service", slice.Name, slice.Ports)
		}
	}
	if len(slices.Items) != 2 || got[discoveryv1.AddressTypeIPv4] != 2 || got[discoveryv1.AddressTypeIPv6] != 1 {
		t.Errorf("%d slices have endpoints %v, want 2 of IPv4 and 1 of IPv6", len(slices.Items), got)
	}
	if _, err := east().Export(ctx, "shop", "web"); err != nil {
		t.Fatal(err)
	}
	if err := east().Unexport(ctx, "shop", "web"); err != nil {
		t.Fatal(err)
	}
	if err := east().Kubernetes.CoreV1().Services("shop").Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// Objects written through one replica can be read from all replicas, and one
// replica is sufficient.
func TestReplicasShareObjects(t *testing.T) {
	ctx := t.Context()
	if err := west().Namespace(ctx, "replicas"); err != nil {
		t.Fatal(err)
	}
	if _, err := west().Export(ctx, "replicas", "web"); err != nil {
		t.Fatal(err)
	}
	for _, replica := range west().APIServers {
		config, err := replica.Config()
		if err != nil {
			t.Fatal(err)
		}
		client, err := versioned.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.MulticlusterXV1beta1().ServiceExports("replicas").Get(ctx, "web", metav1.GetOptions{}); err != nil {
			t.Errorf("at %s: %v", replica.URL(), err)
		}
	}
	first, second := west().APIServers[0], west().APIServers[1]
	first.Kill()
	if err := west().Publish(ctx, second); err != nil {
		t.Fatal(err)
	}
	expect.Eventually(t, "the API at one replica", func(ctx context.Context) error {
		for range 5 {
			if _, err := west().Clientset.MulticlusterXV1beta1().ServiceExports("replicas").Get(ctx, "web", metav1.GetOptions{}); err != nil {
				return fmt.Errorf("with one replica stopped: %w", err)
			}
		}
		return nil
	})
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	if err := west().AwaitAvailable(ctx); err != nil {
		t.Fatal(err)
	}
	if err := west().Publish(ctx, west().APIServers...); err != nil {
		t.Fatal(err)
	}
	if err := west().Unexport(ctx, "replicas", "web"); err != nil {
		t.Fatal(err)
	}
}
