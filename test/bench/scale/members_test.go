// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/test/bench/scale/generator"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
)

// What members may export.
const (
	// little is one service per member, so that idle members are not empty. Members that export
	// the others do not export it: a feed reads at most 10,000 services.
	little = iota
	// web are the services that many clusters export.
	web
	// narrow is a service with few endpoints, and wide one with many.
	narrow
	wide
	// more are services that one cluster exports each, and known those of them that are not imported.
	more
	known
)

func shapes(id string) []generator.Shape {
	return []generator.Shape{
		little: {Namespace: importing, Prefix: "little-" + id, Slices: 1, Endpoints: 2},
		web:    {Namespace: importing, Prefix: "web", Slices: 1, Endpoints: *endpoints},
		narrow: {Namespace: importing, Prefix: "narrow", Slices: 1, Endpoints: 10},
		wide:   {Namespace: importing, Prefix: "wide", Slices: 10, Endpoints: 100},
		more:   {Namespace: importing, Prefix: "more-" + id, Slices: 1, Endpoints: *endpoints},
		known:  {Namespace: missing, Prefix: "known-" + id, Slices: 1, Endpoints: *endpoints},
	}
}

// limits are those in the member Secrets: by default, a member may export 5,000 services, 50,000
// endpoints, and what takes 64 MiB. The rest is what users should declare.
var limits = map[string]string{
	clusterset.MemberSecretAllowedCIDRs: "10.0.0.0/9", clusterset.MemberSecretJoinedAt: "2026-01-01T00:00:00Z",
	clusterset.MemberSecretServiceLimit: "10000", clusterset.MemberSecretEndpointLimit: "200000", clusterset.MemberSecretMemoryLimit: "256Mi",
}

// perMember is how many services one of the other members exports. A feed reads at most 10,000.
const perMember = 5000

// exporting returns how many members export the services that many clusters export.
func (r *run) exporting() int { return *clusters }

// others returns how many members export those services that one cluster exports each.
func (r *run) others() int { return (max(*present-*services, 0) + perMember - 1) / perMember }

// exporters are the members that export the services that many clusters export.
func (r *run) exporters() []*generator.Member { return r.joined[:r.exporting()] }

// keepMembers makes members join or leave, so that there is a number of them.
func (r *run) keepMembers(count int) {
	secrets := r.home.Kubernetes.CoreV1().Secrets(installation.Namespace)
	for len(r.joined) > count {
		last := r.joined[len(r.joined)-1]
		expect.NoError(r.T, secrets.Delete(r.Context(), clusterset.MemberSecretName(last.ID()), metav1.DeleteOptions{}))
		last.Close()
		r.joined = r.joined[:len(r.joined)-1]
	}
	first := len(r.joined)
	for number := first; number < count; number++ {
		id := fmt.Sprintf("member-%d", number)
		member := expect.Must(generator.Start(generator.Config{ID: id, ClusterSet: clusterSet, Number: number + 1, Shapes: shapes(id)}))(r.T)
		r.Cleanup(member.Close)
		member.Export(little, 1)
		r.joined = append(r.joined, member)
	}
	ids := []string{homeID}
	for _, member := range r.joined {
		ids = append(ids, member.ID())
	}
	for _, member := range r.joined { // before they are read
		member.SetPeers(ids)
	}
	for _, member := range r.joined[first:] {
		expect.Must(secrets.Create(r.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: clusterset.MemberSecretName(member.ID())}, Type: clusterset.MemberSecretType,
			Data: expect.Must(member.Secret(limits))(r.T),
		}, metav1.CreateOptions{}))(r.T)
	}
	r.awaitImported()
}

// awaitImported waits until everything that members export is read, and imported unless it is
// only known. It returns how long that took.
func (r *run) awaitImported() time.Duration {
	begun := time.Now()
	r.await(plural(len(r.joined), "member")+" connected and read", r.allRead)
	want := 0
	for _, member := range r.joined {
		_, exported := member.Totals()
		want += exported - member.Exported(known)**endpoints
	}
	r.await(plural(want, "endpoint")+" imported", func(context.Context) error {
		if _, got := r.slices.counts(); got != want {
			return fmt.Errorf("%d of %d are imported", got, want)
		}
		return nil
	})
	return time.Since(begun)
}

// allRead returns an error unless all members are connected, and all that they export is known.
func (r *run) allRead(ctx context.Context) error {
	list, err := r.home.Clientset.ClusterSetV1alpha1().Members().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	found := map[string]clustersetv1alpha1.MemberStatus{}
	for _, entry := range list.Items {
		found[entry.Name] = entry.Status
	}
	if len(found) != len(r.joined)+1 {
		return fmt.Errorf("there are %s, want %d", plural(len(found), "Member"), len(r.joined)+1)
	}
	read := 0
	var first error
	for _, member := range r.joined {
		services, exported := member.Totals()
		status := found[member.ID()]
		if status.State == clustersetv1alpha1.MemberConnected && status.Synced && int(status.Exports) == services && int(status.Endpoints) == exported {
			read++
		} else if first == nil {
			first = fmt.Errorf("%s is %s with %d services and %d endpoints, want %d and %d%s", member.ID(), status.State, status.Exports, status.Endpoints, services, exported, problems(status.Conditions))
		}
	}
	if first != nil {
		return fmt.Errorf("%d of %d; %w", read, len(r.joined), first)
	}
	return nil
}

// problems returns the reasons of the conditions that are False.
func problems(conditions []metav1.Condition) string {
	var found strings.Builder
	for _, condition := range conditions {
		if condition.Status == metav1.ConditionFalse {
			fmt.Fprintf(&found, ", %s: %s", condition.Type, condition.Reason)
		}
	}
	return found.String()
}

// exportServices makes all exporters export a number of services, and waits until they are imported.
func (r *run) exportServices(count int) {
	for _, member := range r.exporters() {
		member.Export(little, 0)
		member.Export(web, count)
	}
	took := r.awaitImported()
	slices, endpoints := r.slices.counts()
	r.progress("%d services of %d clusters were imported in %s: %d EndpointSlices with %d endpoints", count, *clusters, took.Round(time.Millisecond), slices, endpoints)
}
