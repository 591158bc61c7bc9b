// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// R450: storage locations and versions never change, whichever group objects were
// written through: servers of other releases must find them.
func TestStorageLocationsAreFrozen(t *testing.T) {
	ns, ctx := namespace(t), t.Context()
	if _, err := serviceExports(t, kepGroup, ns).Create(ctx, unstructuredExport(kepGroup, "web", nil), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	inventory := client(t).MulticlusterXV1alpha1()
	expect.Must(inventory.ClusterProfiles(ns).Create(ctx, profile("east", "example"), metav1.CreateOptions{}))(t)
	expect.Must(inventory.PlacementDecisions(ns).Create(ctx, &v1alpha1.PlacementDecision{
		ObjectMeta: metav1.ObjectMeta{Name: "web"}, Decisions: []v1alpha1.ClusterDecision{},
	}, metav1.CreateOptions{}))(t)
	kubectl(t, "create", "-f", "testdata/claim.yaml")
	defer kubectl(t, "delete", "-f", "testdata/claim.yaml")
	stored := expect.Must(suite.Stored(ctx))(t)
	for key, want := range map[string]metav1.TypeMeta{
		"multicluster.x-k8s.io/serviceexports/" + ns + "/web":     {APIVersion: "multicluster.x-k8s.io/v1beta1", Kind: "ServiceExport"},
		"multicluster.x-k8s.io/clusterprofiles/" + ns + "/east":   {APIVersion: "multicluster.x-k8s.io/v1alpha1", Kind: "ClusterProfile"},
		"multicluster.x-k8s.io/placementdecisions/" + ns + "/web": {APIVersion: "multicluster.x-k8s.io/v1alpha1", Kind: "PlacementDecision"},
		"multicluster.k8s.io/clusterclaims/stored.example.com":    {APIVersion: "multicluster.k8s.io/v1", Kind: "ClusterClaim"},
	} {
		var got metav1.TypeMeta
		if err := json.Unmarshal(stored[key], &got); err != nil || got != want {
			t.Errorf("stored at %s: %+v (%v), want %+v", key, got, err, want)
		}
	}
	// R138: virtual objects are not stored.
	for key := range stored {
		if strings.Contains(key, "/serviceimports/") {
			t.Errorf("%s is stored", key)
		}
	}
}
