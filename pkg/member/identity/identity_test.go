// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterv1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// R101: the cluster that joined first has the ID, whatever the age of the ID.
func TestClaimedAtIsWhenTheClusterJoined(t *testing.T) {
	early, late := epoch, epoch.Add(time.Hour)
	at := func(at time.Time) *multiclusterv1.ClusterClaim {
		return &multiclusterv1.ClusterClaim{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(at)}}
	}
	dated := func(at *multiclusterv1.ClusterClaim) *multiclusterv1.ClusterClaim {
		at.Annotations = map[string]string{multicluster.MigratedFromAnnotation: "{}"}
		return at
	}
	for _, test := range []struct {
		name           string
		id, clusterSet *multiclusterv1.ClusterClaim
		want           time.Time
	}{
		{"no claims", nil, nil, time.Time{}},
		{"not in a ClusterSet", at(early), nil, early},
		{"without an ID", nil, at(early), early},
		{"ID first", at(early), at(late), late},
		{"ClusterSet first", at(late), at(early), late},
		{"both at once", at(early), at(early), early},
		{"member before it had an ID", at(late), dated(at(early)), early}, // R475
		{"ID that was given an age", dated(at(late)), at(early), late},
		// R366: 9999-12-31T23:59:59-01:00, for example.
		{"year 10000", at(early), at(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)), time.Time{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := ClaimedAt(test.id, test.clusterSet); !got.Equal(test.want) {
				t.Errorf("claimed at %s, want %s", got, test.want)
			}
		})
	}
}

func TestUnknownAgeComesLast(t *testing.T) {
	if CompareAge(time.Time{}, epoch) <= 0 || CompareAge(epoch, time.Time{}) >= 0 || CompareAge(epoch, epoch.Add(1)) >= 0 {
		t.Error("a cluster whose age is unknown takes precedence")
	}
}
