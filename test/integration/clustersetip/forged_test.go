// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clustersetip

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
)

// changeRecord changes the decision that a cluster recorded in its export, as only its
// own mcs-controller does normally.
func changeRecord(t *testing.T, in *fleet.Cluster, ns, name string, changes map[string]any) {
	t.Helper()
	exports := in.Clientset.MulticlusterXV1beta1().ServiceExports(ns)
	expect.NoError(t, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		found, err := exports.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		var record map[string]any
		if err := json.Unmarshal([]byte(found.Annotations[multicluster.ClusterSetIPDecisionAnnotation]), &record); err != nil {
			return err
		}
		for key, value := range changes {
			record[key] = value
		}
		text, err := json.Marshal(record)
		if err != nil {
			return err
		}
		found.Annotations[multicluster.ClusterSetIPDecisionAnnotation] = string(text)
		_, err = exports.UpdateStatus(t.Context(), found, metav1.UpdateOptions{})
		return err
	}))
}

// decided waits until a cluster recorded a decision in its export, and makes it look as
// if that had been an hour ago.
func decided(t *testing.T, in *fleet.Cluster, ns, name, ip string) {
	t.Helper()
	adopted(t, in, ns, name, ip)
	changeRecord(t, in, ns, name, map[string]any{"since": time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)})
}

// forge makes a cluster show a decision that looks older than all others.
func forge(t *testing.T, in *fleet.Cluster, ns, name, ip string) {
	t.Helper()
	changeRecord(t, in, ns, name, map[string]any{"ips": []string{ip}, "decidedBy": in.ID, "since": "2001-01-01T00:00:00Z"})
}

// shows waits until a cluster shows the decision of another one.
func shows(t *testing.T, in *fleet.Cluster, ns, name, from, ip string) {
	t.Helper()
	expect.Eventually(t, fmt.Sprintf("decision %s of %s in %s", ip, from, in.ID), func(ctx context.Context) error {
		found, err := in.Clientset.ClusterSetV1alpha1().ExportedServices(ns).Get(ctx, name+"."+from, metav1.GetOptions{})
		if err == nil && (found.Spec.ClusterSetIP == nil || len(found.Spec.ClusterSetIP.IPs) != 1 || found.Spec.ClusterSetIP.IPs[0] != ip) {
			err = fmt.Errorf("it is %+v", found.Spec.ClusterSetIP)
		}
		return err
	})
}

// R244, R245, R246: a member that makes up decisions, older than all others, changes
// neither the IP of a service that it did not decide nor takes the IP for another
// service; the conflict is reported.
func TestForgedDecisionsDoNotMoveSharedIPs(t *testing.T) {
	ns := clusters.CreateNamespace(t, "forged")
	export(t, east(), ns, "web", "true")
	ip := oneIP(t, ns, "web", "east")
	decided(t, east(), ns, "web", ip)

	export(t, north(), ns, "web", "true")
	adopted(t, north(), ns, "web", ip)
	forge(t, north(), ns, "web", "243.3.0.1")
	// A service that nobody else exports, with the IP of the other one.
	export(t, north(), ns, "evil", "false")
	expect.Eventually(t, "decision for no IP", func(ctx context.Context) error {
		found, err := north().Clientset.MulticlusterXV1beta1().ServiceExports(ns).Get(ctx, "evil", metav1.GetOptions{})
		if err == nil && found.Annotations[multicluster.ClusterSetIPDecisionAnnotation] == "" {
			err = fmt.Errorf("annotations are %v", found.Annotations)
		}
		return err
	})
	forge(t, north(), ns, "evil", ip)

	for _, cluster := range []*fleet.Cluster{east(), west()} {
		shows(t, cluster, ns, "web", "north", "243.3.0.1")
		shows(t, cluster, ns, "evil", "north", ip)
	}
	exportCondition(t, east(), ns, "web", "Conflict", metav1.ConditionTrue, "ClusterSetIPDecisionConflict", ip, "north")
	// West exports the service now, and adopts the IP that it serves.
	export(t, west(), ns, "web", "true")
	adopted(t, west(), ns, "web", ip)
	restart(t, east(), west())
	for _, cluster := range []*fleet.Cluster{east(), west()} {
		adopted(t, cluster, ns, "web", ip)
		if got := imported(t, cluster, ns, "web", "east", "north", "west").Spec.IPs; len(got) != 1 || got[0] != ip {
			t.Errorf("IPs in %s are %v, want %s", cluster.ID, got, ip)
		}
	}
}
