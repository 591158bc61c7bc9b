// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/clustertest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/expect"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

// explained returns the text for shop/web in a cluster with these objects.
func explained(t *testing.T, objects ...runtime.Object) string {
	t.Helper()
	report, err := explain(t.Context(), clustertest.NewCluster(objects...), "shop", "web")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := writeExplanation(&out, report, clustertest.Noon); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestExplainConflictingExports(t *testing.T) {
	sticky := func(spec *clustersetv1alpha1.ExportedServiceSpec) {
		spec.SessionAffinity = corev1.ServiceAffinityClientIP
		spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr.To[int32](600)}}
		spec.ExportedLabels = map[string]string{"team": "a"}
	}
	twoPorts := func(spec *clustersetv1alpha1.ExportedServiceSpec) {
		spec.Ports = append(spec.Ports, clustersetv1alpha1.ServicePort{Name: "metrics", Protocol: corev1.ProtocolTCP, Port: 9090})
		spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
		spec.InternalTrafficPolicy = ptr.To(corev1.ServiceInternalTrafficPolicyCluster)
	}
	metrics := discoveryv1.EndpointPort{Name: ptr.To("metrics"), Port: ptr.To[int32](9091)}
	west := clustertest.NewSlice("west", discoveryv1.AddressTypeIPv4, "10.2.0.1")
	west.Spec.Ports = append(west.Spec.Ports, metrics)
	serviceImport := clustertest.NewImport(func(i *multiclusterxv1beta1.ServiceImport) {
		i.Spec.Ports = append(i.Spec.Ports, multiclusterxv1beta1.ServicePort{Name: "metrics", Protocol: corev1.ProtocolTCP, Port: 9090})
		i.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		i.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr.To[int32](600)}}
		i.Status.Conditions = append(i.Status.Conditions, metav1.Condition{Type: "MembersReachable", Status: metav1.ConditionFalse, Reason: "MembersLost", Message: "lost: north"})
	})
	expect.Text(t, `
Service web in namespace shop, as seen by cluster east in ClusterSet production (context east)

Exports, by precedence:
  CLUSTER   SINCE                  AGE   STATE       READY/TOTAL ENDPOINTS
  east      2026-02-25T12:00:00Z   4d    Local       2/3
  west      2026-02-28T12:00:00Z   24h   Connected   2/2
  north     2026-03-01T11:00:00Z   60m   Lost        1/1

Exported properties (! marks a conflict):
    PROPERTY                  east            west                           north          USED                           DECIDED BY
    type                      ClusterSetIP    ClusterSetIP                   ClusterSetIP   ClusterSetIP                   all agree
  ! ports                     http:80/TCP     http:80/TCP,metrics:9090/TCP   http:80/TCP    http:80/TCP,metrics:9090/TCP   union
  ! session affinity          ClientIP        None                           None           ClientIP                       oldest export, east
  ! session affinity config   timeout 600 s   -                              -              timeout 600 s                  oldest export, east
  ! internal traffic policy   -               Cluster                        -              -                              oldest export, east
    traffic distribution      -               -                              -              -                              all agree
    cluster preference        -               -                              -              -                              all agree
    IP families               IPv4            IPv4,IPv6                      IPv4           IPv4                           oldest export, east
  ! exported labels           team=a          -                              -              team=a                         oldest export, east
    exported annotations      -               -                              -              -                              all agree
    shared ClusterSet IP      false           false                          false          false                          all agree
  PortConflict: Conflicting ports. Using "http:80/TCP,metrics:9090/TCP", preferring those of the oldest service export in "east". 1/3 clusters disagree.
  SessionAffinityConflict: Conflicting session affinity. Using "ClientIP" from oldest service export in "east". 2/3 clusters disagree.
  SessionAffinityConfigConflict: Conflicting session affinity config. Using "timeout 600 s" from oldest service export in "east". 2/3 clusters disagree.
  InternalTrafficPolicyConflict: Conflicting internal traffic policy. Using "" from oldest service export in "east". 1/3 clusters disagree.
  LabelsConflict: Conflicting labels. Using "team=a" from oldest service export in "east". 2/3 clusters disagree.

Ready/total endpoints by port (- if the cluster does not serve the port):
  PORT               IP FAMILY        east   west   north
  http:80/TCP        IPv4             2/3    1/1    1/1
  http:80/TCP        IPv6, not used   0/0    1/1    0/0
  metrics:9090/TCP   IPv4             -      1/1    -
  metrics:9090/TCP   IPv6, not used   -      0/0    -

DNS names:
  NAME                                          TYPE   ANSWER
  web.shop.svc.clusterset.local                 A      10.0.0.7
  _http._tcp.web.shop.svc.clusterset.local      SRV    80 web.shop.svc.clusterset.local
  _metrics._tcp.web.shop.svc.clusterset.local   SRV    9090 web.shop.svc.clusterset.local

Import in this cluster:
  Type:               ClusterSetIP
  IPs:                10.0.0.7
  Ports:              http:80/TCP, metrics:9090/TCP
  Session affinity:   ClientIP for 600 s
  MembersReachable is False: MembersLost: lost: north
  Cluster north is Lost: last seen 2026-03-01T11:50:00Z; its endpoints are withdrawn until it is connected again
`, explained(t,
		clustertest.Local(), clustertest.NewMember("west", clustersetv1alpha1.MemberConnected), clustertest.NewMember("north", clustersetv1alpha1.MemberLost, clustertest.Seen(10*time.Minute)),
		clustertest.NewExported("north", time.Hour), clustertest.NewExported("west", 24*time.Hour, twoPorts), clustertest.NewExported("east", 96*time.Hour, sticky),
		clustertest.NewSlice("east", discoveryv1.AddressTypeIPv4, "10.1.0.1", "!10.1.0.2", "10.1.0.3"),
		west, clustertest.NewSlice("west", discoveryv1.AddressTypeIPv6, "fd00::1"), clustertest.NewSlice("north", discoveryv1.AddressTypeIPv4, "10.3.0.1"),
		serviceImport,
	))
}

func TestExplainHeadlessService(t *testing.T) {
	named := func(slice *clustersetv1alpha1.ExportedEndpointSlice) *clustersetv1alpha1.ExportedEndpointSlice {
		for i := range slice.Spec.Endpoints {
			slice.Spec.Endpoints[i].Hostname = ptr.To("web-" + string(rune('0'+i)))
		}
		return slice
	}
	dual := func(spec *clustersetv1alpha1.ExportedServiceSpec) {
		spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	}
	serviceImport := clustertest.NewImport(func(i *multiclusterxv1beta1.ServiceImport) {
		i.Spec.Type, i.Spec.IPs = multiclusterxv1beta1.Headless, nil
		i.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	})
	text := explained(t, clustertest.Local(), clustertest.NewMember("west", clustersetv1alpha1.MemberConnected), clustertest.NewMember("gone", clustersetv1alpha1.MemberLost),
		clustertest.NewExported("east", time.Hour, clustertest.Headless, dual), clustertest.NewExported("west", time.Minute, clustertest.Headless, dual), clustertest.NewExported("gone", time.Second, clustertest.Headless, dual),
		named(clustertest.NewSlice("east", discoveryv1.AddressTypeIPv4, "10.1.0.1", "!10.1.0.2")), named(clustertest.NewSlice("east", discoveryv1.AddressTypeIPv6, "fd00:1::1")),
		clustertest.NewSlice("west", discoveryv1.AddressTypeIPv4, "10.2.0.1", "10.2.0.2", "10.2.0.3"), clustertest.NewSlice("gone", discoveryv1.AddressTypeIPv4, "10.3.0.1"),
		serviceImport,
	)
	_, text, _ = strings.Cut(text, "DNS names:\n")
	expect.Text(t, `
  NAME                                       TYPE   ANSWER
  web.shop.svc.clusterset.local              A      10.1.0.1, 10.2.0.1, 10.2.0.2 and 1 more
  web.shop.svc.clusterset.local              AAAA   fd00:1::1
  _http._tcp.web.shop.svc.clusterset.local   SRV    8080 web-0.east.web.shop.svc.clusterset.local
  web-0.east.web.shop.svc.clusterset.local   A      10.1.0.1
  web-0.east.web.shop.svc.clusterset.local   AAAA   fd00:1::1

Import in this cluster:
  Type:               Headless
  IPs:                -
  Ports:              http:80/TCP
  Session affinity:   None
  Cluster gone is Lost: never seen; its endpoints are withdrawn until it is connected again
`, text)
}

// R509: DNS answers with the endpoints until an import that was headless has an IP.
func TestExplainImportThatIsHeadlessUntilItHasAnIP(t *testing.T) {
	text := explained(t, clustertest.Local(), clustertest.NewExported("east", time.Hour), clustertest.NewSlice("east", discoveryv1.AddressTypeIPv4, "10.1.0.1"),
		clustertest.NewImport(func(i *multiclusterxv1beta1.ServiceImport) {
			i.Spec.Type, i.Spec.IPs = multiclusterxv1beta1.Headless, nil
		}))
	if want := "web.shop.svc.clusterset.local              A      10.1.0.1\n"; !strings.Contains(text, want) {
		t.Errorf("no %q in %s", want, text)
	}
}

func TestDualStackImportHasAnAddressRecordPerFamily(t *testing.T) {
	dual := func(spec *clustersetv1alpha1.ExportedServiceSpec) {
		spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
	}
	text := explained(t, clustertest.Local(), clustertest.NewExported("east", time.Hour, dual), clustertest.NewImport(func(i *multiclusterxv1beta1.ServiceImport) {
		i.Spec.IPs, i.Spec.IPFamilies = []string{"fd00::7", "10.0.0.7"}, []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
	}))
	_, text, _ = strings.Cut(text, "DNS names:\n")
	text, _, _ = strings.Cut(text, "\n\n")
	expect.Text(t, `
  NAME                                       TYPE   ANSWER
  web.shop.svc.clusterset.local              AAAA   fd00::7
  web.shop.svc.clusterset.local              A      10.0.0.7
  _http._tcp.web.shop.svc.clusterset.local   SRV    80 web.shop.svc.clusterset.local`, text)
}

func TestExplainServiceThatIsNotImported(t *testing.T) {
	terminating := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceTerminating}}
	for _, test := range []struct {
		name    string
		objects []runtime.Object
		want    string
	}{
		{"no namespace", nil, `namespace "shop" does not exist in this cluster: create it to import the service`},
		{"namespace being deleted", []runtime.Object{terminating}, `namespace "shop" is being deleted in this cluster`},
		{"not computed yet", []runtime.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}}, "the ServiceImport has not been computed yet: try again in a moment"},
	} {
		t.Run(test.name, func(t *testing.T) {
			text := explained(t, append(test.objects, clustertest.Local(), clustertest.NewExported("west", time.Hour))...)
			_, text, _ = strings.Cut(text, "DNS names ")
			expect.Text(t, `
(not resolvable in this cluster):
  NAME                                       TYPE   ANSWER
  web.shop.svc.clusterset.local              A      -
  _http._tcp.web.shop.svc.clusterset.local   SRV    -

Import in this cluster:
  Not imported: `+test.want+"\n", text)
		})
	}
}

func TestExplainServiceThatIsNotExported(t *testing.T) {
	elsewhere := clustertest.NewServiceExport("web", clustertest.Ready(metav1.ConditionTrue, ""))
	elsewhere.Namespace = "office"
	const notExported = `service "web" in namespace "shop" is not exported by any member that context "east" knows`
	for _, test := range []struct {
		name    string
		objects []runtime.Object
		want    string
	}{
		{"no export", []runtime.Object{clustertest.Local(), clustertest.NewServiceExport("db")}, notExported + "\n" +
			"  Export the Service with `kubectl mcs export web -n shop` in a cluster that has it."},
		{"no ClusterSet", nil, notExported + "\n" +
			"  The cluster is not in a ClusterSet: join the cluster to a ClusterSet with `kubectl mcs join`.\n" +
			"  Export the Service with `kubectl mcs export web -n shop` in a cluster that has it."},
		{"local export is not ready", []runtime.Object{clustertest.Local(), clustertest.NewServiceExport("web", clustertest.Ready(metav1.ConditionFalse, "Service does not exist"))}, notExported + "\n" +
			`  ServiceExport "web" in namespace "shop" of this cluster is not ready: Service does not exist`},
		{"in another namespace", []runtime.Object{clustertest.Local(), elsewhere}, notExported + "\n" +
			`  ServiceExport "web" in namespace "office" of this cluster is ready` + "\n" +
			"  Export the Service with `kubectl mcs export web -n shop` in a cluster that has it."},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := explain(t.Context(), clustertest.NewCluster(test.objects...), "shop", "web")
			if err == nil {
				t.Fatal("expected an error")
			}
			expect.Text(t, test.want, err.Error())
		})
	}
}

func TestExplainWithoutPermissionToReadMembers(t *testing.T) {
	report, err := explain(t.Context(), clustertest.WithoutMembers(clustertest.NewCluster(clustertest.NewExported("west", time.Hour), clustertest.NewImport())), "shop", "web")
	if err != nil {
		t.Fatal(err)
	}
	if report.Exports[0].State != "" || report.ClusterID != "" || report.Import == nil {
		t.Errorf("got %+v", report)
	}
}

func TestLongValuesAreTruncatedInTextOnly(t *testing.T) {
	long := strings.Repeat("x", 5000)
	annotated := func(spec *clustersetv1alpha1.ExportedServiceSpec) {
		spec.ExportedAnnotations = map[string]string{"a": long}
	}
	objects := []runtime.Object{clustertest.Local(), clustertest.NewExported("east", time.Hour, annotated), clustertest.NewImport()}
	if text := explained(t, objects...); strings.Contains(text, strings.Repeat("x", maxCell)) || !strings.Contains(text, "a=xxxx") {
		t.Errorf("value is not truncated:\n%s", text)
	}
	report, err := explain(t.Context(), clustertest.NewCluster(objects...), "shop", "web")
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal(report)
	if err != nil || !strings.Contains(string(encoded), long) {
		t.Errorf("value is truncated in JSON (%v)", err)
	}
}

func TestCompletionOfServiceImports(t *testing.T) {
	got, err := importedNames(t.Context(), clustertest.NewCluster(clustertest.NewImport()), "shop")
	if err != nil || len(got) != 1 || got[0] != "web" {
		t.Errorf("got completions %v and error %v", got, err)
	}
}
