// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/hostile"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
)

const (
	// usualChanges and attackedChanges are how many changes of the honest member are
	// measured before and during an attack, at least.
	usualChanges, attackedChanges = 5, 15
	// recentChanges is how many of those before are compared with.
	recentChanges = 8 * usualChanges
	// patience is how long an attack, and what reports it, may take to begin.
	patience = 30 * time.Second
	// floor is what a change may always take: the machine may be busy, also with what
	// attacks cost the test itself. What attacks did before they were limited took seconds.
	floor = 250 * time.Millisecond
)

// R270, R271, R272, R273, R274, R275: whatever a hostile member does, what the honest member changes arrives
// as usual, nothing of it is withdrawn, memory and logs stay within bounds, the Member
// reports what is refused, and nothing is left of the hostile member when its Secret
// is deleted.
func TestHostileMemberAffectsNobodyElse(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("a redirect was followed: %s with %v", r.URL, r.Header)
	}))
	t.Cleanup(elsewhere.Close)
	target := hostile.Target{
		Importer: "importer", Honest: "honest", ClusterSet: clusterSet, Namespace: clusters.CreateNamespace(t, "shop"),
		Own: createNode(t), Elsewhere: elsewhere.URL,
	}
	for number := range honestServices {
		target.Services = append(target.Services, fmt.Sprintf("honest-%d", number))
	}
	exportHonestly(t, target.Namespace, target.Services)
	observed := observe(t, target.Namespace, target.Services)
	importer().AwaitRecorded(t)
	usage := watchUsage(t)
	var usual []time.Duration // in quiet times, the latest last
	for _, attack := range hostile.Attacks() {
		t.Run(attack.Name, func(t *testing.T) {
			begun := time.Now()
			observed.awaitChanges(t, begun, usualChanges)
			usual = append(usual, observed.delays(begun, time.Now())...)
			usage.reset(t)
			from := time.Now()
			play(t, target, attack, func() { observed.awaitChanges(t, time.Now(), attackedChanges) })
			to := time.Now()
			observed.check(t)
			usage.check(t)
			compare(t, slices.Sorted(slices.Values(usual[max(0, len(usual)-recentChanges):])), observed.delays(from, to))
		})
	}
	t.Run("after-a-restart", func(t *testing.T) {
		replica := importer().APIServers[0]
		replica.Kill()
		expect.NoError(t, replica.Start())
		expect.NoError(t, importer().AwaitAvailable(t.Context()))
		for _, attack := range hostile.Attacks() {
			awaitNothing(t, attack.Name, true)
		}
		observed.check(t)
	})
}

// compare compares how long changes took.
func compare(t *testing.T, usual, attacked []time.Duration) {
	t.Helper()
	report := func(delays []time.Duration) string {
		return fmt.Sprintf("%s (90%% in %s, all in %s)", quantile(delays, 0.5), quantile(delays, 0.9), quantile(delays, 1))
	}
	t.Logf("changes took %s, usually %s", report(attacked), report(usual))
	if median, limit := quantile(attacked, 0.5), max(floor, 2*quantile(usual, 0.5)); median > limit {
		t.Errorf("changes of the honest member took %s, at most %s are allowed", median, limit)
	}
}

// play lets a member attack until wait returns, and then expels it.
func play(t *testing.T, target hostile.Target, attack hostile.Attack, wait func()) {
	t.Helper()
	target.ID = attack.Name
	behavior := attack.Behavior(target)
	member := expect.Must(hostile.Start(hostile.Config{ID: attack.Name, ClusterSet: clusterSet, Peers: []string{"importer", "honest"}, Behavior: behavior}))(t)
	t.Cleanup(member.Close)
	keys := map[string]string{clusterset.MemberSecretJoinedAt: time.Now().Format(time.RFC3339)}
	for key, value := range attack.Secret {
		keys[key] = value
	}
	secrets := importer().Kubernetes.CoreV1().Secrets(installation.Namespace)
	name := clusterset.MemberSecretName(attack.Name)
	expect.Must(secrets.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Type: clusterset.MemberSecretType, Data: expect.Must(member.Secret(keys))(t),
	}, metav1.CreateOptions{}))(t)
	expel := func() error { return secrets.Delete(context.Background(), name, metav1.DeleteOptions{}) }
	t.Cleanup(func() { _ = expel() }) // if the test fails
	awaitSent(t, member, behavior, attack.Sent)
	awaitMember(t, attack.Name, func(found *clustersetv1alpha1.Member) error { return reported(found, attack.Reported) })
	expect.Within(t, patience, "imports from "+attack.Name, func(ctx context.Context) error {
		found, err := imported(ctx, target)
		if err == nil && found < attack.Imported {
			err = fmt.Errorf("%d of %d", found, attack.Imported)
		}
		return err
	})
	wait()
	if found := expect.Must(imported(t.Context(), target))(t); found > 0 && attack.Imported == 0 {
		t.Errorf("%d services of the member are imported", found)
	}
	awaitMember(t, attack.Name, harmless)
	expectNoForbiddenAddress(t, target)
	begun := time.Now()
	expect.NoError(t, expel())
	awaitNothing(t, attack.Name, false)
	t.Logf("nothing was left after %s", time.Since(begun).Round(time.Millisecond))
}

// awaitMember waits until the Member passes a check.
func awaitMember(t *testing.T, id string, check func(*clustersetv1alpha1.Member) error) {
	t.Helper()
	expect.Within(t, patience, "Member "+id, func(ctx context.Context) error {
		found, err := importer().Clientset.ClusterSetV1alpha1().Members().Get(ctx, id, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return check(found)
	})
}

// reported returns an error if the condition that reports an attack is missing.
func reported(found *clustersetv1alpha1.Member, want *hostile.Report) error {
	if want == nil {
		return nil
	}
	condition := meta.FindStatusCondition(found.Status.Conditions, want.Condition)
	if condition == nil || condition.Status == metav1.ConditionTrue || condition.Reason != want.Reason {
		return fmt.Errorf("condition %s is %+v, want reason %s", want.Condition, condition, want.Reason)
	}
	for _, part := range want.Parts {
		if !strings.Contains(condition.Message, part) {
			return fmt.Errorf("%q is missing in %q", part, condition.Message)
		}
	}
	return nil
}

// harmless returns an error if a Member is large, or contains characters that could
// mislead who reads it.
func harmless(found *clustersetv1alpha1.Member) error {
	size := 0
	for _, condition := range found.Status.Conditions {
		size += len(condition.Message)
		if at := strings.IndexFunc(condition.Message, func(r rune) bool { return !unicode.IsPrint(r) }); at >= 0 {
			return fmt.Errorf("message of condition %s has a control character at %d: %q", condition.Type, at, condition.Message)
		}
	}
	if size += len(strings.Join(found.Status.Peers, "")); size > 64<<10 {
		return fmt.Errorf("Member takes %d bytes", size)
	}
	return nil
}

// awaitSent waits until everything was sent once, and something as often as given.
func awaitSent(t *testing.T, member *hostile.Member, behavior hostile.Behavior, often int) {
	t.Helper()
	expect.Within(t, patience, "attack", func(context.Context) error {
		most := 0
		for resource := range behavior {
			sent := member.Sent(resource)
			if most = max(most, sent); sent == 0 {
				return fmt.Errorf("nothing was sent of %s", resource)
			}
		}
		if most < often {
			return fmt.Errorf("sent %d times, want %d", most, often)
		}
		return nil
	})
}

// imported returns how many services of the member are imported.
func imported(ctx context.Context, target hostile.Target) (count int, err error) {
	list, err := importer().Clientset.MulticlusterXV1beta1().ServiceImports(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	for i := range list.Items {
		if slices.Contains(exporters(&list.Items[i]), target.ID) {
			count++
		}
	}
	return count, nil
}

// expectNoForbiddenAddress fails if an address was imported that no member may export.
func expectNoForbiddenAddress(t *testing.T, target hostile.Target) {
	t.Helper()
	list := expect.Must(importer().Kubernetes.DiscoveryV1().EndpointSlices(metav1.NamespaceAll).List(t.Context(), importedFrom(target.ID)))(t)
	forbidden := slices.Concat(hostile.ForbiddenAddresses(), target.Own)
	for _, slice := range list.Items {
		for _, endpoint := range slice.Endpoints {
			for _, address := range endpoint.Addresses {
				if slices.Contains(forbidden, address) {
					t.Errorf("address %s was imported", address)
				}
			}
		}
	}
}
