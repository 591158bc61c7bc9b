// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clustersetip

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
)

// expel sets or removes the annotation that expels a member.
func expel(ctx context.Context, in *fleet.Cluster, id, value string) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, clusterset.ExpelledAnnotation, value)
	_, err := in.Kubernetes.CoreV1().Secrets(installation.Namespace).Patch(ctx, clusterset.MemberSecretName(id), types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// R248: when a member is expelled, other clusters decide anew about the services whose IP
// it decided, and say so; other IPs stay.
func TestExpelledMemberDecidesNothing(t *testing.T) {
	ns := clusters.CreateNamespace(t, "expelled")
	export(t, north(), ns, "web", "true")
	ip := oneIP(t, ns, "web", "north")
	export(t, west(), ns, "web", "true")
	adopted(t, west(), ns, "web", ip)
	export(t, east(), ns, "other", "true")
	kept := oneIP(t, ns, "other", "east")

	others := []*fleet.Cluster{east(), west()}
	for _, cluster := range others {
		t.Cleanup(func() { expect.NoError(t, expel(context.Background(), cluster, "north", "null")) })
		expect.NoError(t, expel(t.Context(), cluster, "north", `"true"`))
	}
	for _, cluster := range others {
		cluster.AwaitImportThat(t, ns, "web", func(found *multiclusterxv1beta1.ServiceImport) error {
			if exporters := fleet.Exporters(found); !slices.Equal(exporters, []string{"west"}) || len(found.Spec.IPs) != 1 || !strings.HasPrefix(found.Spec.IPs[0], "243.2.") {
				return fmt.Errorf("imported from %v with IPs %v", exporters, found.Spec.IPs)
			}
			return nil
		})
		if got := imported(t, cluster, ns, "other", "east").Spec.IPs[0]; got != kept {
			t.Errorf("IP of another service in %s is %s, was %s", cluster.ID, got, kept)
		}
	}
	expect.Eventually(t, "Event in west", func(ctx context.Context) error {
		events, err := west().Kubernetes.EventsV1().Events(ns).List(ctx, metav1.ListOptions{})
		if err == nil && !slices.ContainsFunc(events.Items, func(event eventsv1.Event) bool {
			return event.Reason == "ClusterSetIPReleased" && strings.Contains(event.Note, ip)
		}) {
			err = errors.New("not recorded")
		}
		return err
	})
}
