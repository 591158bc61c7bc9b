// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/hostile"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster/fabric"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/traffic"
)

// trap is a service of the hostile cluster that it may export, and its ID meanwhile.
const trap = "trap"

// patience is how long an attack may take to begin.
const patience = 30 * time.Second

// attacker is a cluster that attacks others. For every attack, it joins under the name of the
// attack, and is expelled afterwards.
type attacker struct {
	node    *fabric.Node
	victims []*victim
	// sharedIP is the shared ClusterSet IP of an honest service.
	sharedIP string
}

// victim is a cluster that is attacked.
type victim struct {
	hostile.Victim
	name string
	// own are addresses of its Nodes, Pods and Services.
	own []string
	// freeIP is one that it could allocate.
	freeIP string
}

// newAttacker connects a hostile cluster to the others. All of its Pods answer connections.
func newAttacker(t *testing.T) *attacker {
	t.Helper()
	a := &attacker{node: expect.Must(set.AddOutsider("hostile", hostile.PodCIDRs()...))(t)}
	backends := expect.Must(a.node.Listen(":80"))(t)
	served := make(chan error, 1)
	go func() { served <- traffic.Serve(backends, "hostile") }()
	t.Cleanup(func() {
		backends.Close()
		expect.NoError(t, <-served)
	})
	for _, cluster := range both() {
		config := expect.Must(cluster.Config())(t)
		a.victims = append(a.victims, &victim{
			name: cluster.Name, own: ownAddresses(t, cluster), freeIP: freeIP(t, cluster),
			Victim: hostile.Victim{Kubernetes: expect.Must(kubernetes.NewForConfig(config))(t), Clientset: expect.Must(versioned.NewForConfig(config))(t)},
		})
	}
	a.sharedIP = words(t, east, "get", "serviceimport", "both", "-n", bank, "-o", "jsonpath={.spec.ips[0]}")[0]
	return a
}

// ownAddresses returns addresses of Nodes, Pods and Services of a cluster.
func ownAddresses(t *testing.T, cluster *localcluster.Cluster) []string {
	t.Helper()
	var all []string
	for _, args := range [][]string{
		{"nodes", "-o", `jsonpath={.items[*].status.addresses[?(@.type=="InternalIP")].address}`},
		{"pods", "-n", bank, "-o", "jsonpath={.items[*].status.podIPs[*].ip}"},
		{"service", "kube-dns", "-n", "kube-system", "-o", "jsonpath={.spec.clusterIPs[*]}"},
	} {
		addresses := words(t, cluster, append([]string{"get"}, args...)...)
		if len(addresses) == 0 {
			t.Fatalf("%s has no addresses of %s", cluster.Name, args[0])
		}
		all = append(all, addresses...)
	}
	return all
}

// freeIP returns the last address of the allocation CIDR of a cluster that no service has.
func freeIP(t *testing.T, cluster *localcluster.Cluster) string {
	t.Helper()
	used := words(t, cluster, "get", "serviceimports", "-A", "-o", "jsonpath={.items[*].spec.ips[*]}")
	cidr := netip.MustParsePrefix(words(t, cluster, "get", "member", cluster.Name, "-o", "jsonpath={.status.clusterSetIPCIDRs[0]}")[0])
	var free netip.Addr
	for address := cidr.Addr(); cidr.Contains(address); address = address.Next() {
		if !slices.Contains(used, address.String()) {
			free = address
		}
	}
	if !free.IsValid() {
		t.Fatalf("%s has no free address in %s", cluster.Name, cidr)
	}
	return free.String()
}

// checkBackends checks that Pods can reach the endpoints of the hostile cluster: otherwise, no
// connection would ever lead there.
func (a *attacker) checkBackends(t *testing.T) {
	t.Helper()
	runClient(t, west, shop)
	export := hostile.Attack{Name: trap, Behavior: func(target hostile.Target) hostile.Behavior {
		return hostile.Behavior{
			hostile.Services: {Objects: slices.Values([]string{hostile.Service(shop, trap, target.ID)})},
			hostile.Slices:   {Objects: slices.Values([]string{hostile.Slice(shop, trap, trap, target.ID, []string{"10.20.0.1"})})},
		}
	}}
	expect.NoError(t, a.play(t.Context(), export, func(context.Context) error {
		expect.Eventually(t, "answer of the hostile cluster", func(ctx context.Context) error {
			answer, err := ask(ctx, west, shop, "TCP", "4", trap+"."+shop+".svc.clusterset.local", 80)
			if err != nil || answer != "hostile" {
				err = fmt.Errorf("%q: %w", answer, err)
			}
			return err
		})
		return nil
	}))
}

// playAll plays every attack once, several at a time, for the given time in total and until each of
// them has had its effect. If the time is short, it plays as many as there is time for. It returns
// how many were played.
func (a *attacker) playAll(ctx context.Context, attacks []hostile.Attack, duration time.Duration, observed *objects) (int, error) {
	group, ctx := errgroup.WithContext(ctx)
	begun, played := time.Now(), atomic.Int32{}
	for lane := range lanes {
		// Attacks of different kinds are played at the same time.
		own := attacks[lane*len(attacks)/lanes : (lane+1)*len(attacks)/lanes]
		group.Go(func() error {
			for _, attack := range own {
				if duration < allAttacks && time.Since(begun) > duration {
					return nil
				}
				played.Add(1)
				if err := a.play(ctx, attack, func(ctx context.Context) error {
					return errors.Join(a.awaitEffect(ctx, attack, observed), pause(ctx, duration/time.Duration(len(own))))
				}); err != nil {
					return fmt.Errorf("attack %s: %w", attack.Name, err)
				}
			}
			return nil
		})
	}
	err := group.Wait()
	return int(played.Load()), err
}

func pause(ctx context.Context, duration time.Duration) error {
	select {
	case <-time.After(duration):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// awaitEffect waits until services of the attacker are imported in all victims, if they should be.
func (a *attacker) awaitEffect(ctx context.Context, attack hostile.Attack, observed *objects) error {
	for _, victim := range a.victims {
		imported := func(context.Context) (bool, error) { return observed.hasImported(victim.name, attack), nil }
		if err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, patience, true, imported); err != nil {
			return fmt.Errorf("nothing was imported in %s: %w", victim.name, err)
		}
	}
	return nil
}

// play joins all victims, attacks until attacking returns and each of them has read something, and is
// expelled.
func (a *attacker) play(ctx context.Context, attack hostile.Attack, attacking func(context.Context) error) (result error) {
	var members []*hostile.Member
	for _, victim := range a.victims {
		member, err := a.join(ctx, victim, attack)
		if err != nil {
			return err
		}
		members = append(members, member)
		defer member.Close()
		defer func() { result = errors.Join(result, victim.expel(ctx, attack.Name)) }()
	}
	if err := attacking(ctx); err != nil {
		return err
	}
	for _, member := range members {
		begun := func(context.Context) (bool, error) { return member.Begun(), nil }
		if err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, patience, true, begun); err != nil {
			return fmt.Errorf("nothing was sent: %w", err)
		}
	}
	return nil
}

// join makes the attacker a member of a victim that may export into one namespace only.
func (a *attacker) join(ctx context.Context, victim *victim, attack hostile.Attack) (*hostile.Member, error) {
	listener, err := a.node.Listen(net.JoinHostPort(a.node.IPs()[0], "0"))
	if err != nil {
		return nil, err
	}
	var behaviors []hostile.Behavior
	for _, namespace := range []string{shop, bank} {
		behaviors = append(behaviors, attack.Behavior(a.target(victim, attack.Name, namespace)))
	}
	member, err := hostile.Start(hostile.Config{
		ID: attack.Name, ClusterSet: "e2e", Peers: []string{"east", "west"}, Behavior: hostile.Combine(behaviors[0], behaviors[1]), Listener: listener,
	})
	if err != nil {
		return nil, err
	}
	keys := map[string]string{clusterset.MemberSecretJoinedAt: time.Now().Format(time.RFC3339), clusterset.MemberSecretAllowedNamespaces: shop}
	maps.Copy(keys, attack.Secret)
	data, err := member.Secret(keys)
	if err == nil {
		_, err = victim.Kubernetes.CoreV1().Secrets("mcs-system").Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: clusterset.MemberSecretName(attack.Name)}, Type: clusterset.MemberSecretType, Data: data,
		}, metav1.CreateOptions{})
	}
	if err != nil {
		member.Close()
		return nil, err
	}
	return member, nil
}

// target returns what the attacker attacks in a namespace of a victim.
func (a *attacker) target(victim *victim, id, namespace string) hostile.Target {
	target := hostile.Target{ID: id, Importer: victim.name, ClusterSet: "e2e", Namespace: namespace, Own: victim.own, SharedIP: a.sharedIP, FreeIP: victim.freeIP, Elsewhere: "http://" + a.node.IPs()[0]}
	for _, other := range a.victims {
		if other != victim {
			target.Honest = other.name
		}
	}
	target.Services = slices.Sorted(maps.Keys(honestServices()[namespace]))
	return target
}

func (v *victim) expel(ctx context.Context, id string) error {
	return v.Kubernetes.CoreV1().Secrets("mcs-system").Delete(context.WithoutCancel(ctx), clusterset.MemberSecretName(id), metav1.DeleteOptions{})
}

// hostileIDs are all IDs under which the attacker is a member.
var hostileIDs = sync.OnceValue(func() []string {
	ids := []string{trap}
	for _, attack := range hostile.Attacks() {
		ids = append(ids, hostile.Identities(attack.Name)...)
	}
	return ids
})

// awaitNothing waits until nothing is left of the attacker: until a minute after it was expelled.
func (a *attacker) awaitNothing(t *testing.T, expelled time.Time) {
	t.Helper()
	ids := hostileIDs()
	for _, victim := range a.victims {
		expect.Within(t, time.Minute-time.Since(expelled), "end of the attacker in "+victim.name, func(ctx context.Context) error {
			left, err := victim.Leftovers(ctx, ids...)
			if err == nil && len(left) == 0 {
				left, err = victim.Last(ctx, ids...)
			}
			if err == nil && len(left) > 0 {
				err = fmt.Errorf("%d objects are left: %s", len(left), strings.Join(left[:min(10, len(left))], ", "))
			}
			return err
		})
	}
	t.Logf("nothing was left of the attacker within %s", time.Since(expelled).Round(time.Millisecond))
}
