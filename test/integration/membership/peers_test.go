// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/transport"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
)

// peerConfigs returns how a cluster reads another one with its peer credential: through
// the kube-apiserver, and directly from mcs-apiserver.
func peerConfigs(t *testing.T, reader, read *fleet.Cluster) map[string]*rest.Config {
	t.Helper()
	secret, err := reader.Kubernetes.CoreV1().Secrets(installation.Namespace).Get(t.Context(), clusterset.MemberSecretName(read.ID), metav1.GetOptions{})
	expect.NoError(t, err)
	host, err := clientcmd.RESTConfigFromKubeConfig(secret.Data[clusterset.MemberSecretKubeconfig])
	expect.NoError(t, err)
	admin, err := read.APIServers[0].Config()
	expect.NoError(t, err)
	direct := &rest.Config{Host: admin.Host, BearerToken: host.BearerToken, TLSClientConfig: rest.TLSClientConfig{CAData: admin.CAData, ServerName: admin.ServerName}}
	return map[string]*rest.Config{"kube-apiserver": host, "mcs-apiserver": direct}
}

func clientset(t *testing.T, config *rest.Config) versioned.Interface {
	t.Helper()
	client, err := versioned.NewForConfig(config)
	expect.NoError(t, err)
	return client
}

// R250, R251, R252, R284: a reader with the credential of west sees what east exports, and of
// north the identity only, whatever the request says and whichever way it takes.
func TestPeersSeeNothingOfThirdClusters(t *testing.T) {
	join(t, "east", "west", "north")
	ns := clusters.CreateNamespace(t, "guarded")
	export(t, east(), ns, "web")
	_, err := east().EndpointSlice(t.Context(), ns, "web", []string{"10.9.0.1"}, func(slice *discoveryv1.EndpointSlice) {
		slice.Endpoints[0].NodeName, slice.Endpoints[0].Zone = ptr.To("secret-node"), ptr.To("zone-a")
	})
	expect.NoError(t, err)
	export(t, north(), ns, "db")
	east().AwaitImport(t, ns, "db", "north")
	expect.Eventually(t, "node of the endpoint", func(ctx context.Context) error { // which the own cluster needs
		list, err := east().Clientset.ClusterSetV1alpha1().ExportedEndpointSlices(ns).List(ctx, metav1.ListOptions{})
		if err == nil && !strings.Contains(text(t, list), "secret-node") {
			err = errors.New(text(t, list))
		}
		return err
	})
	for server, config := range peerConfigs(t, west(), east()) {
		t.Run(server, func(t *testing.T) {
			config.Wrap(func(next http.RoundTripper) http.RoundTripper {
				return transport.NewAuthProxyRoundTripper("system:admin", "", []string{"system:masters"}, nil, next)
			})
			config.UserAgent = "mcs-apiserver cluster/north"
			api := clientset(t, config).ClusterSetV1alpha1()
			services, err := api.ExportedServices(ns).List(t.Context(), metav1.ListOptions{})
			expect.NoError(t, err)
			slices, err := api.ExportedEndpointSlices(ns).List(t.Context(), metav1.ListOptions{})
			expect.NoError(t, err)
			if len(services.Items) != 1 || services.Items[0].Name != "web.east" || len(slices.Items) != 1 || slices.Items[0].Spec.Cluster != "east" {
				t.Errorf("a peer sees %s %s", text(t, services), text(t, slices))
			}
			if endpoint := slices.Items[0].Spec.Endpoints[0]; endpoint.NodeName != nil || ptr.Deref(endpoint.Zone, "") != "zone-a" {
				t.Errorf("a peer sees endpoint %s", text(t, endpoint))
			}
			for _, selector := range []string{"multicluster.kubernetes.io/source-cluster=north", "multicluster.kubernetes.io/source-cluster!=east"} {
				if found, err := api.ExportedServices(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{LabelSelector: selector}); err != nil || len(found.Items) > 0 {
					t.Errorf("a peer that asks for %s sees %s, %v", selector, text(t, found), err)
				}
			}
			if found, err := api.ExportedServices(ns).Get(t.Context(), "db.north", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("a peer sees %s, %v", text(t, found), err)
			}
			members, err := api.Members().List(t.Context(), metav1.ListOptions{})
			expect.NoError(t, err)
			expectIdentities(t, members)
			expect.Lacks(t, text(t, members)+text(t, services)+text(t, slices), "secret-node", "https://", `"db`)
		})
	}
}

// expectIdentities fails unless a members list of east tells nothing about other
// clusters but who they are.
func expectIdentities(t *testing.T, members *clustersetv1alpha1.MemberList) {
	t.Helper()
	var names []string
	for _, member := range members.Items {
		names = append(names, member.Name)
		status := member.Status
		if metadata := (metav1.ObjectMeta{Name: member.Name, ResourceVersion: member.ResourceVersion}); member.Name != "east" && text(t, member.ObjectMeta) != text(t, metadata) {
			t.Errorf("a peer sees %s with %s", member.Name, text(t, member.ObjectMeta))
		}
		if member.Name == "east" {
			if status.State != clustersetv1alpha1.MemberLocal || status.Exports == 0 || !slices.Equal(status.Peers, []string{"north", "west"}) {
				t.Errorf("a peer sees east as %s", text(t, status))
			}
			continue
		}
		identity := clustersetv1alpha1.MemberStatus{ClusterID: member.Name, ClusterUID: status.ClusterUID, ClusterSet: clusterSet}
		if status.ClusterUID == "" || text(t, status) != text(t, identity) {
			t.Errorf("a peer sees %s as %s", member.Name, text(t, status))
		}
	}
	if !slices.Equal(names, []string{"east", "north", "west"}) {
		t.Errorf("a peer sees %v", names)
	}
}

func text(t *testing.T, object any) string {
	t.Helper()
	encoded, err := json.Marshal(object)
	expect.NoError(t, err)
	return string(encoded)
}

// revocationLimit is the documented time after which an open watch ends.
const revocationLimit = 30 * time.Second

// followAsPeer watches the ExportedServices of a cluster with the credential of another one.
// It returns the last event when the watch ends.
func followAsPeer(t *testing.T, reader, read *fleet.Cluster, through string) <-chan watch.Event {
	t.Helper()
	return lastEvent(t, expect.Must(clientset(t, peerConfigs(t, reader, read)[through]).ClusterSetV1alpha1().ExportedServices("").Watch(t.Context(), metav1.ListOptions{}))(t))
}

// followClaimsAsPeer is followAsPeer for ClusterClaims.
func followClaimsAsPeer(t *testing.T, reader, read *fleet.Cluster) <-chan watch.Event {
	t.Helper()
	return lastEvent(t, expect.Must(clientset(t, peerConfigs(t, reader, read)["kube-apiserver"]).MulticlusterV1().ClusterClaims().Watch(t.Context(), metav1.ListOptions{}))(t))
}

// lastEvent returns the last event of a watch when it ends.
func lastEvent(t *testing.T, watcher watch.Interface) <-chan watch.Event {
	t.Helper()
	t.Cleanup(watcher.Stop)
	ended := make(chan watch.Event, 1)
	go func() {
		last := watch.Event{}
		for event := range watcher.ResultChan() {
			last = event
		}
		ended <- last
	}()
	return ended
}

// accessChange is a change of the access that east or west have to another cluster.
type accessChange struct {
	name         string
	reader, read *fleet.Cluster
	change       func(context.Context) error
	// sees is what the reader sees afterwards; nil if it may not read.
	sees []string
}

func accessChanges() []accessChange {
	return []accessChange{
		{"account is deleted", east(), west(), func(ctx context.Context) error {
			return west().Kubernetes.CoreV1().ServiceAccounts(installation.Namespace).Delete(ctx, "peer-east", metav1.DeleteOptions{})
		}, nil},
		{"binding is deleted", east(), north(), func(ctx context.Context) error {
			return north().Kubernetes.RbacV1().ClusterRoleBindings().Delete(ctx, clusterset.PeerBindingName("east"), metav1.DeleteOptions{})
		}, nil},
		{"relaying is granted", west(), north(), func(ctx context.Context) error { return north().RelayTo(ctx, "west") }, []string{"web.east", "web.north"}},
	}
}

// R253, R254, R283: an open watch ends within the documented time after the account of the peer
// or its permissions were deleted. If what is relayed to the peer changes, it is told to
// list again.
func TestOpenWatchesEndWhenAccessChanges(t *testing.T) {
	join(t, "east", "west", "north")
	ns := clusters.CreateNamespace(t, "revoked")
	for _, cluster := range clusters.Clusters {
		export(t, cluster, ns, "web")
	}
	expect.Eventually(t, "exports of all clusters in north", func(ctx context.Context) error {
		known, err := north().Clientset.ClusterSetV1alpha1().ExportedServices(ns).List(ctx, metav1.ListOptions{})
		if err == nil && len(known.Items) != 3 {
			err = fmt.Errorf("north knows %d", len(known.Items))
		}
		return err
	})
	unchanged := followAsPeer(t, west(), east(), "kube-apiserver")
	claims, claimsToBeRevoked := followClaimsAsPeer(t, west(), north()), followClaimsAsPeer(t, east(), north())
	t.Run("changed", func(t *testing.T) {
		for _, change := range accessChanges() {
			t.Run(change.name, func(t *testing.T) {
				t.Parallel()
				expectWatchesEnd(t, change, ns)
			})
		}
	})
	t.Run("relaying is revoked", func(t *testing.T) {
		expectWatchesEnd(t, accessChange{"", west(), north(), func(ctx context.Context) error {
			return north().Kubernetes.RbacV1().ClusterRoleBindings().Delete(ctx, clusterset.RelayBindingName("west"), metav1.DeleteOptions{})
		}, []string{"web.north"}}, ns)
	})
	expectEnd(t, claimsToBeRevoked, time.Now())
	for _, open := range []<-chan watch.Event{unchanged, claims} {
		select {
		case event := <-open:
			t.Errorf("a watch of a peer that does not depend on what changed ended: %s", text(t, event))
		default:
		}
	}
	expect.NoError(t, north().Kubernetes.RbacV1().ClusterRoleBindings().Delete(t.Context(), clusterset.PeerBindingName("west"), metav1.DeleteOptions{}))
	expectEnd(t, claims, time.Now())
}

// expectWatchesEnd changes access, and fails unless open watches of the reader end in time.
func expectWatchesEnd(t *testing.T, change accessChange, ns string) {
	t.Helper()
	watches := []<-chan watch.Event{followAsPeer(t, change.reader, change.read, "kube-apiserver"), followAsPeer(t, change.reader, change.read, "mcs-apiserver")}
	expect.NoError(t, change.change(t.Context()))
	begin := time.Now()
	for _, ended := range watches {
		event := expectEnd(t, ended, begin)
		if expired := event.Type == watch.Error && apierrors.IsResourceExpired(apierrors.FromObject(event.Object)); expired != (change.sees != nil) {
			t.Errorf("the last event is %s %s", event.Type, text(t, event.Object))
		}
	}
	expectSees(t, change, ns)
}

// expectEnd waits until a watch ends, for as long as is documented after access changed, and
// returns its last event.
func expectEnd(t *testing.T, ended <-chan watch.Event, changed time.Time) watch.Event {
	t.Helper()
	select {
	case event := <-ended:
		t.Logf("ended after %s", time.Since(changed).Round(100*time.Millisecond))
		return event
	case <-time.After(time.Until(changed.Add(revocationLimit))):
		t.Fatalf("the watch is open after %s", revocationLimit)
	}
	return watch.Event{}
}

// expectSees fails unless the reader sees what it should after the change.
func expectSees(t *testing.T, change accessChange, ns string) {
	t.Helper()
	for server, config := range peerConfigs(t, change.reader, change.read) {
		services := clientset(t, config).ClusterSetV1alpha1().ExportedServices(ns)
		if change.sees == nil {
			expect.Eventually(t, "refusal by the "+server, func(ctx context.Context) error { // tokens are cached, too
				if list, err := services.List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) {
					return fmt.Errorf("revoked peer sees %s, %w", text(t, list), err)
				}
				return nil
			})
			continue
		}
		list, err := services.List(t.Context(), metav1.ListOptions{})
		expect.NoError(t, err)
		var names []string
		for _, service := range list.Items {
			names = append(names, service.Name)
		}
		if !slices.Equal(names, change.sees) {
			t.Errorf("%s: peer sees %v, want %v", server, names, change.sees)
		}
	}
}
