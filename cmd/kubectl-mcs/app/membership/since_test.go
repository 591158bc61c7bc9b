// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/expect"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/plan"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterv1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1"
)

// R475: clusters that join since an earlier time claim it, and all record it of each other, if
// their servers know of it.
func TestJoinSince(t *testing.T) {
	const since = "2024-01-02T03:04:05Z"
	for name, supported := range map[string]bool{"supported": true, "ignored by the server": false} {
		t.Run(name, func(t *testing.T) {
			clusters := []*Cluster{newCluster("east", "east"), newCluster("west", "west")}
			for _, c := range clusters {
				_, own := c.fakes()
				own.PrependReactor("create", "clusterclaims", func(action clienttesting.Action) (bool, runtime.Object, error) {
					claim := action.(clienttesting.CreateAction).GetObject().(*multiclusterv1.ClusterClaim)
					from, err := multicluster.ParseMigratedFrom(claim.Annotations[multicluster.MigratedFromAnnotation], time.Now())
					if claim.CreationTimestamp = metav1.Now(); err == nil && supported {
						claim.CreationTimestamp = from.CreationTimestamp
					}
					return true, claim, own.Tracker().Create(multiclusterv1.SchemeGroupVersion.WithResource("clusterclaims"), claim, "")
				})
			}
			steps := planned(t, clusters, nil)
			for i := range steps {
				if steps[i].Action == plan.JoinClusterSet {
					steps[i].Since = since
				}
			}
			e := NewExecution(clusters, discardProgress())
			err := e.Run(t.Context(), steps)
			if !supported {
				expect.Error(t, err, "does not support --since")
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if east, west := clusters[0].joinedAt(t, "west"), clusters[1].joinedAt(t, "east"); east != since || west != since {
				t.Errorf("east has %q for west, and west %q for east", east, west)
			}
		})
	}
}
