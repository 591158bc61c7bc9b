// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/membertest"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
)

// fault is something that breaks services of west, and the alert about it.
type fault struct {
	name string
	// play begins and repair ends it.
	play, repair func(*testing.T)
	alert        string // the name and the labels
}

const crdInTheWay = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: serviceexports.multicluster.x-k8s.io
  annotations: {api-approved.kubernetes.io: "https://github.com/kubernetes-sigs/mcs-api"}
spec:
  group: multicluster.x-k8s.io
  scope: Namespaced
  names: {plural: serviceexports, singular: serviceexport, kind: ServiceExport, listKind: ServiceExportList}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// R525: the alert that fits names what is broken, and ends when it is repaired. Durations for which
// faults have to last are left out: alerts that are pending count.
func TestAlertsNameWhatIsBroken(t *testing.T) {
	startPrometheus(t)
	ns := clusters.CreateNamespace(t, "alerts")
	east().ExportService(t, ns, "web", []string{"10.0.0.1"})
	west().AwaitImport(t, ns, "web", "east")
	time.Sleep(time.Second) // exports are as old as whole seconds say
	headless := func(service *corev1.Service) { service.Spec.ClusterIP = corev1.ClusterIPNone }
	join := func(t *testing.T, overrides map[string][]byte) {
		expect.Must(west().Join(t.Context(), east(), overrides))(t)
	}
	again := func(t *testing.T) { join(t, nil) }
	for _, fault := range []fault{
		{
			"conflicting type", func(t *testing.T) { west().ExportService(t, ns, "web", []string{"10.0.1.1"}, headless) },
			func(t *testing.T) { expect.NoError(t, west().Unexport(t.Context(), ns, "web")) },
			`MCSExportsConflict", reason="TypeConflict`,
		},
		{
			"cut link", func(*testing.T) { west().Links["east"].Cut() },
			func(t *testing.T) { expect.NoError(t, west().Links["east"].Restore()) },
			`MCSMemberSilent", cluster="east`,
		},
		{
			"expired credential", func(t *testing.T) {
				expired := membertest.Token(t, time.Now().Add(-2*time.Hour), time.Hour)
				join(t, map[string][]byte{clusterset.MemberSecretKubeconfig: expect.Must(west().KubeconfigFor(east(), expired))(t)})
			}, again, `MCSMemberCredentialNotRenewed", cluster="east`,
		},
		{
			"wrong ID", func(t *testing.T) { join(t, map[string][]byte{clusterset.MemberSecretClusterID: []byte("north")}) }, again,
			`MCSMemberRefused", cluster="north`,
		},
		{
			"CRD in the way", func(t *testing.T) {
				configMaps := west().Kubernetes.CoreV1().ConfigMaps(installation.Namespace)
				expect.Must(configMaps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: clusterset.DetachedConfigMap}}, metav1.CreateOptions{}))(t)
				awaitAlert(t, `MCSAPINotRegistered", reason="Detached`)
				expect.Must(west().Kubectl(t.Context(), "apply", "-f", expect.Manifest(t, "%s", crdInTheWay)))(t)
				expect.Must(west().Kubectl(t.Context(), "wait", "crd/serviceexports.multicluster.x-k8s.io", "--for=condition=Established", "--timeout=60s"))(t)
				expect.NoError(t, configMaps.Delete(t.Context(), clusterset.DetachedConfigMap, metav1.DeleteOptions{}))
			},
			func(t *testing.T) {
				expect.Must(west().Kubectl(t.Context(), "delete", "crd/serviceexports.multicluster.x-k8s.io"))(t)
				expect.NoError(t, west().AwaitAvailable(t.Context()))
			},
			`MCSAPINotRegistered", reason="RegistrationRefused`,
		},
		{
			"server is down", func(*testing.T) { west().APIServers[0].Kill() },
			func(t *testing.T) {
				expect.NoError(t, west().StartAPIServers())
				expect.NoError(t, west().AwaitAvailable(t.Context()))
			}, `MCSAPIServerDown`,
		},
	} {
		t.Run(fault.name, func(t *testing.T) {
			awaitNoAlerts(t)
			fault.play(t)
			defer awaitNoAlerts(t)
			defer fault.repair(t)
			awaitAlert(t, fault.alert)
		})
	}
}

// awaitAlert waits until an alert is pending or fires.
func awaitAlert(t *testing.T, alert string) {
	t.Helper()
	expect.Within(t, 2*time.Minute, "alert "+alert, func(ctx context.Context) error {
		found, err := ask(ctx, fmt.Sprintf(`ALERTS{alertname="%s"}`, alert))
		if err == nil && len(found) == 0 {
			others, _ := ask(ctx, `ALERTS`)
			err = fmt.Errorf("there is none, but %v", others)
		}
		return err
	})
}

// awaitNoAlerts waits until no alert is pending or fires.
func awaitNoAlerts(t *testing.T) {
	t.Helper()
	expect.Within(t, 2*time.Minute, "no alerts", func(ctx context.Context) error {
		found, err := ask(ctx, `ALERTS`)
		if err == nil && len(found) > 0 {
			err = errors.New(fmt.Sprint(found...))
		}
		return err
	})
}
