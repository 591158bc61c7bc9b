// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/tcplink"
)

// Addresses of endpoints. All of this network is local, so that the test can listen there.
const (
	network    = "10.250.0.0/16"
	answering  = "10.250.7.1"
	notInUse   = "10.250.7.2"
	secondHalf = "10.250.7.3"
	ofWest     = "10.250.7.4"
)

// How long faults take, in the short form of the tests that make integration runs.
var (
	outage   = flag.Duration("outage", 20*time.Second, "for how long mcs-apiserver of a member is down after the TTL of the member")
	flapping = flag.Duration("flapping", 30*time.Second, "for how long all links fail every 3 seconds")
)

// listen accepts connections at port 80 of an address, until it is closed.
func listen(t *testing.T, address string) net.Listener {
	t.Helper()
	return listenAt(t, net.JoinHostPort(address, "80"))
}

func listenAt(t *testing.T, address string) net.Listener {
	t.Helper()
	listener := expect.Must((&net.ListenConfig{}).Listen(t.Context(), "tcp", address))(t)
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			connection.Close()
		}
	}()
	t.Cleanup(func() { listener.Close() })
	return listener
}

// askable lets west ask the endpoints of east, and has endpoints of west answer as well.
func askable(t *testing.T, ns string) (own net.Listener) {
	t.Helper()
	own = listen(t, ofWest)
	west().ExportService(t, ns, "of-west", []string{ofWest})
	awaitEndpoints(t, west(), ns, "of-west", from{"west": {ofWest}})
	allowAsking(t)
	return own
}

// allowAsking lets west ask the endpoints of east.
func allowAsking(t *testing.T) {
	t.Helper()
	expect.Must(west().Join(t.Context(), east(), map[string][]byte{clusterset.MemberSecretAllowedCIDRs: []byte(network)}))(t)
	t.Cleanup(func() { expect.Must(west().Join(context.Background(), east(), nil))(t) })
}

// awaitReachability waits for the reason of the condition MembersReachable of an import,
// empty for none.
func awaitReachability(t *testing.T, ns, name, reason string) {
	t.Helper()
	west().AwaitImportThat(t, ns, name, func(found *multiclusterxv1beta1.ServiceImport) error {
		condition := meta.FindStatusCondition(found.Status.Conditions, "MembersReachable")
		if condition == nil && reason != "" || condition != nil && condition.Reason != reason {
			return fmt.Errorf("condition is %+v, want %q", condition, reason)
		}
		return nil
	})
}

// awaitFound waits for the state of member east, and for what was found about its endpoints.
func awaitFound(t *testing.T, state clustersetv1alpha1.MemberState, reason string) {
	t.Helper()
	west().AwaitMember(t, "east", func(member *clustersetv1alpha1.Member) error {
		condition := meta.FindStatusCondition(member.Status.Conditions, clusterset.MemberEndpointsReachable)
		if member.Status.State != state || !member.Status.Expired || condition == nil || condition.Reason != reason {
			return fmt.Errorf("state %s, expired %t, %+v", member.Status.State, member.Status.Expired, condition)
		}
		return nil
	})
}

// R301, R306, R307, R308, R314: while mcs-apiserver of a member is down, endpoints that
// answer are kept, also across a restart of mcs-controller, and only the others are
// withdrawn. They return when they answer, or when the member does.
func TestEndpointsThatAnswerAreKept(t *testing.T) {
	ns := fleet.CreateNamespace(t, "silent", east(), west())
	listener := listen(t, answering)
	askable(t, ns)
	east().ExportService(t, ns, "web", []string{answering})
	east().ExportService(t, ns, "half", []string{notInUse})
	east().ExportService(t, ns, "two", []string{notInUse, secondHalf})
	listen(t, secondHalf)
	web, half, two := from{"east": {answering}}, from{"east": {notInUse}}, from{"east": {notInUse, secondHalf}}
	awaitEndpoints(t, west(), ns, "web", web)
	awaitEndpoints(t, west(), ns, "half", half)
	awaitEndpoints(t, west(), ns, "two", two)
	awaitQuiet(t, ns)

	replica := east().APIServers[0]
	t.Cleanup(func() {
		if !replica.Running() {
			expect.Must(0, errors.Join(replica.Start(), east().AwaitAvailable(context.Background())))(t)
		}
	})
	expect.NoError(t, replica.Stop(time.Minute))
	awaitEast(t, clustersetv1alpha1.MemberUnavailable)
	awaitEndpoints(t, west(), ns, "half", from{})
	awaitFound(t, clustersetv1alpha1.MemberUnavailable, clusterset.ReasonEndpointsAnswer)
	awaitReachability(t, ns, "web", "MembersStale")
	awaitReachability(t, ns, "two", "MembersStale")
	awaitReachability(t, ns, "half", "MembersLost")
	inWest := count(t, west(), ns)
	expect.NoError(t, west().StopController())
	expect.NoError(t, west().StartController(t.Context()))
	stays(t, *outage, func(ctx context.Context) error {
		slices, err := importedSlices(ctx, west(), ns, "web")
		if err == nil && len(endpoints(slices)["east"]) != 1 {
			err = errors.New("endpoints that answer were withdrawn")
		}
		return err
	}, inWest)
	awaitEndpoints(t, west(), ns, "two", two)

	listener.Close()
	awaitEndpoints(t, west(), ns, "web", from{})
	awaitReachability(t, ns, "web", "MembersLost")
	listen(t, answering)
	awaitEndpoints(t, west(), ns, "web", web)

	expect.NoError(t, replica.Start())
	expect.NoError(t, east().AwaitAvailable(t.Context()))
	awaitEast(t, clustersetv1alpha1.MemberConnected)
	awaitEndpoints(t, west(), ns, "half", half)
	awaitReachability(t, ns, "half", "")
	expect.Eventually(t, "Events on the member Secret", func(ctx context.Context) error {
		list, err := west().Kubernetes.CoreV1().Events(installation.Namespace).List(ctx, metav1.ListOptions{
			FieldSelector: fields.Set{"involvedObject.name": clusterset.MemberSecretName("east")}.String(),
		})
		if err != nil {
			return err
		}
		reasons := sets.New[string]()
		for _, event := range list.Items {
			reasons.Insert(event.Reason)
		}
		if !reasons.HasAll("MemberUnavailable", "MemberConnected") {
			return fmt.Errorf("reasons are %v", sets.List(reasons))
		}
		return nil
	})
}

// linkToEast returns the link from west to east, and a function that restores it and the lost
// policy, which is also called when the test ends.
func linkToEast(t *testing.T) (link *tcplink.Link, restore func()) {
	t.Helper()
	link = west().Links["east"]
	restore = func() {
		expect.Must(0, link.Restore())(t)
		setPolicy(context.Background(), t, "null")
	}
	t.Cleanup(restore)
	return link, restore
}

// R305, R314: of a member that is gone, all endpoints are withdrawn after its TTL, except
// those that KeepLast keeps.
func TestEndpointsOfAMemberThatIsGoneAreWithdrawn(t *testing.T) {
	ns := fleet.CreateNamespace(t, "gone", east(), west())
	listener := listen(t, answering)
	askable(t, ns)
	east().ExportService(t, ns, "web", []string{answering})
	west().ExportService(t, ns, "web", []string{ofWest})
	east().ExportService(t, ns, "only", []string{answering})
	both, own, only := from{"east": {answering}, "west": {ofWest}}, from{"west": {ofWest}}, from{"east": {answering}}
	awaitEndpoints(t, west(), ns, "web", both)
	awaitEndpoints(t, west(), ns, "only", only)
	setPolicy(t.Context(), t, `"KeepLast"`)
	link, restore := linkToEast(t)
	listener.Close()
	link.Cut()
	awaitEast(t, clustersetv1alpha1.MemberStale)
	awaitEndpoints(t, west(), ns, "web", own)
	awaitFound(t, clustersetv1alpha1.MemberLost, clusterset.ReasonEndpointsSilent)
	awaitEndpoints(t, west(), ns, "only", only)
	setPolicy(t.Context(), t, `"Withdraw"`)
	awaitEndpoints(t, west(), ns, "only", from{})
	restore()
	awaitEast(t, clustersetv1alpha1.MemberConnected)
	awaitEndpoints(t, west(), ns, "web", both)
	awaitEndpoints(t, west(), ns, "only", only)
}

// R311, R314: while neither the API of a member nor endpoints of this cluster answer, nothing
// is withdrawn, whatever the policy: this cluster is the one that is cut off. When its own
// endpoints answer again, those of the member decide.
func TestClusterThatIsCutOffWithdrawsNothing(t *testing.T) {
	ns := fleet.CreateNamespace(t, "isolated", east(), west())
	listener := listen(t, answering)
	own := askable(t, ns)
	east().ExportService(t, ns, "web", []string{answering})
	web := from{"east": {answering}}
	awaitEndpoints(t, west(), ns, "web", web)
	link, restore := linkToEast(t)
	listener.Close()
	own.Close()
	link.Cut()
	awaitFound(t, clustersetv1alpha1.MemberStale, clusterset.ReasonNoVantagePoint)
	for _, policy := range []string{`"Withdraw"`, `"KeepLast"`, `"Keep"`} {
		setPolicy(t.Context(), t, policy)
		stays(t, 10*time.Second, func(ctx context.Context) error {
			slices, err := importedSlices(ctx, west(), ns, "web")
			if err == nil && len(endpoints(slices)["east"]) != 1 {
				err = fmt.Errorf("endpoints were withdrawn with policy %s", policy)
			}
			return err
		}, count(t, west(), ns))
	}
	setPolicy(t.Context(), t, `"Withdraw"`)
	listen(t, ofWest)
	awaitEndpoints(t, west(), ns, "web", from{})
	restore()
	awaitEast(t, clustersetv1alpha1.MemberConnected)
	awaitEndpoints(t, west(), ns, "web", web)
}

// R314: while the Kubernetes API of a member cannot be reached and its endpoints answer,
// nothing is withdrawn. Nor is anything written while all links fail every few seconds.
func TestNothingIsWithdrawnWhileEndpointsAnswer(t *testing.T) {
	ns := fleet.CreateNamespace(t, "unreachable", east(), west())
	listen(t, answering)
	askable(t, ns)
	east().ExportService(t, ns, "web", []string{answering})
	awaitEndpoints(t, west(), ns, "web", from{"east": {answering}})
	awaitQuiet(t, ns)
	link, back := west().Links["east"], east().Links["west"]
	restore := func() { expect.Must(0, errors.Join(link.Restore(), back.Restore()))(t) }
	t.Cleanup(restore)
	inWest := count(t, west(), ns)
	for end := time.Now().Add(*flapping); time.Now().Before(end); {
		link.Cut()
		back.Cut()
		time.Sleep(3 * time.Second)
		restore()
		time.Sleep(3 * time.Second)
	}
	awaitEast(t, clustersetv1alpha1.MemberConnected)
	inWest.expect(t)
	link.Cut()
	awaitFound(t, clustersetv1alpha1.MemberStale, clusterset.ReasonEndpointsAnswer)
	inWest.expect(t)
}
