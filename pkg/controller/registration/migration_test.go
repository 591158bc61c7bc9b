// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apiconflict"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

// R472: while objects of CRDs are migrated, all group-versions that the CRDs do not serve are
// registered, and the Pod is ready. Those of the CRDs are registered when they are handed over.
func TestWhatCRDsDoNotServeIsRegisteredDuringMigration(t *testing.T) {
	for _, test := range []struct {
		name          string
		marked        bool
		handedOver    bool
		registered    int
		ready, stated bool
	}{
		{name: "no migration"},
		{name: "migration", marked: true, registered: len(groupVersions) - 1, ready: true, stated: true},
		{name: "handed over", marked: true, handedOver: true, registered: len(groupVersions), ready: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			ofCRD := apiService(func(a *apiregistrationv1.APIService) {
				a.Name = groupVersions[0].apiServiceName()
				if !test.handedOver {
					a.Labels = map[string]string{apiconflict.AutomanagedLabel: "true"}
				}
			})
			c, _ := newController(t, ofCRD)
			c.setLeading(true)
			if _, err := c.clients.Aggregator.ApiregistrationV1().APIServices().Create(t.Context(), ofCRD, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			if test.marked {
				mark := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ourService.Namespace, Name: clusterset.MigrationConfigMap}}
				if _, err := c.clients.Kubernetes.CoreV1().ConfigMaps(mark.Namespace).Create(t.Context(), mark, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.sync(t.Context(), queueKey); err != nil {
				t.Fatal(err)
			}
			list, err := c.clients.Aggregator.ApiregistrationV1().APIServices().List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			ours := slices.DeleteFunc(list.Items, func(a apiregistrationv1.APIService) bool { return !isOurs(&a, ourService) })
			if len(ours) != test.registered {
				t.Errorf("%d APIServices are registered, want %d", len(ours), test.registered)
			}
			for _, a := range ours { // R472: kubectl means the resources of CRDs
				if behind := a.Spec.GroupPriorityMinimum < 1000; behind == test.handedOver || a.Spec.GroupPriorityMinimum <= 0 {
					t.Errorf("%s has priority %d", a.Name, a.Spec.GroupPriorityMinimum)
				}
			}
			text, err := c.State()
			if (err == nil) != test.ready || strings.Contains(text, "being migrated") != test.stated {
				t.Errorf("state is %q, %v", text, err)
			}
		})
	}
}
