// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
)

// expectServices waits until the list shows exactly what the API of a cluster has in a namespace: which
// services, exported by which clusters, with how many endpoints.
func (b *browser) expectServices(in *fleet.Cluster, namespace string) {
	b.t.Helper()
	expect.Eventually(b.t, "services of "+namespace, func(ctx context.Context) error {
		want, err := servicesOf(ctx, in, namespace)
		if err != nil {
			return err
		}
		got := read[map[string]string](b, fmt.Sprintf(`Object.fromEntries([...document.querySelectorAll("#list li")].filter((row) => row.dataset.key.startsWith(%q)).map((row) =>
			[row.dataset.key, row.querySelector(".exporters").textContent]))`, namespace+"/"))
		wanted, _ := json.Marshal(want)
		shown, _ := json.Marshal(got)
		if string(wanted) != string(shown) {
			return fmt.Errorf("the page shows %s, the API has %s", shown, wanted)
		}
		return nil
	})
}

// servicesOf returns the text of the exporters of every service.
func servicesOf(ctx context.Context, in *fleet.Cluster, namespace string) (map[string]string, error) {
	imports, err := in.Clientset.MulticlusterXV1beta1().ServiceImports(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	exported, err := in.Clientset.ClusterSetV1alpha1().ExportedServices(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	local, err := in.Clientset.MulticlusterXV1beta1().ServiceExports(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	services := map[string]string{}
	for _, one := range imports.Items {
		services[namespace+"/"+one.Name] = ""
	}
	for _, one := range local.Items {
		services[namespace+"/"+one.Name] = ""
	}
	slices.SortFunc(exported.Items, func(a, b clustersetv1alpha1.ExportedService) int {
		return cmp.Or(a.Spec.ExportedAt.Compare(b.Spec.ExportedAt.Time), cmp.Compare(a.Spec.Cluster, b.Spec.Cluster))
	})
	for _, one := range exported.Items {
		key := namespace + "/" + one.Spec.Service
		if services[key] == "" {
			services[key] = "exported by " + one.Spec.Cluster
		} else {
			services[key] += ", " + one.Spec.Cluster
		}
	}
	return services, nil
}

func onPort(port int32) func(*corev1.Service) {
	return func(service *corev1.Service) { service.Spec.Ports[0].Port = port }
}

// R580 to R582, R584: the page shows what the API says while exports are created, changed and removed,
// and requests nothing elsewhere.
func TestPageShowsWhatTheAPISays(t *testing.T) {
	ns := clusters.CreateNamespace(t, "shop")
	s := serve(t, "", "--context", "east", "--contexts", "west")
	b := start(t)
	b.open(s)
	if address := read[string](b, "location.href"); strings.Contains(address, "token") {
		t.Errorf("the token is in the address bar: %s", address)
	}
	b.awaitText("#title", "ClusterSet production, as cluster east sees it")

	west().ExportService(t, ns, "web", []string{"10.9.0.1", "10.9.0.2"})
	imported := east().AwaitImportThat(t, ns, "web", func(found *multiclusterxv1beta1.ServiceImport) error {
		if len(found.Spec.IPs) == 0 {
			return errors.New("it has no IP")
		}
		return nil
	})
	b.expectServices(east(), ns)
	b.awaitText(row(ns+"/web"), "2 ready endpoints in 1 clusters")
	b.do(chromedp.Click(chromedp.CSS(row(ns + "/web"))))
	b.awaitText("table.importers", imported.Spec.IPs[0])
	b.await("both importers", `[...document.querySelectorAll("table.importers tbody th")].map((cell) => cell.textContent).join() === "east,west"`)
	b.awaitText("table.names", "web."+ns+".svc.clusterset.local")
	b.awaitText("#no-conflicts", "None")

	annotate(t, west(), ns, "web", `{"clusterset.mcs-apiserver.io/cluster-preference": "cluster"}`)
	b.await("the active tiers", `[...document.querySelectorAll("p.tier")].map((one) => one.textContent).join("\n") === `+
		"`Clients in east use tier all: tier \"cluster\" does not have enough endpoints (at least 1 ready for 5s).\n`+\n"+
		"`Clients in west use tier cluster: it has enough endpoints (at least 1 ready).`")
	annotate(t, west(), ns, "web", `{"clusterset.mcs-apiserver.io/cluster-preference": null}`)
	b.await("no tiers", `document.querySelectorAll("p.tier").length === 0`)

	expect.Must(west().EndpointSlice(t.Context(), ns, "web", []string{"10.9.0.1"}))(t)
	b.awaitText(row(ns+"/web"), "1 ready endpoints in 1 clusters")
	b.awaitText("table.exports", "1/1")

	// Another port, and text that would be markup, or reverse what is around it.
	time.Sleep(time.Second) // exports are as old as whole seconds say
	const hostile = `<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>` + "\u202eevil"
	expect.Must(east().Service(t.Context(), ns, "web", onPort(81)))(t)
	expect.Must(east().EndpointSlice(t.Context(), ns, "web", []string{"10.8.0.1"}))(t)
	expect.Must(east().Export(t.Context(), ns, "web", func(export *multiclusterxv1beta1.ServiceExport) {
		export.Spec.ExportedAnnotations = map[string]string{"note": hostile}
	}))(t)
	b.expectServices(east(), ns)
	b.awaitText(row(ns+"/web"), "PortConflict")
	b.awaitText("#winner", "west wins conflicts: its export took effect first")
	expect.Eventually(t, "the conflict", func(ctx context.Context) error {
		export, err := east().Clientset.MulticlusterXV1beta1().ServiceExports(ns).Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		conflict := meta.FindStatusCondition(export.Status.Conditions, "Conflict")
		if conflict == nil || conflict.Status != metav1.ConditionTrue {
			return fmt.Errorf("conditions are %+v", export.Status.Conditions)
		}
		if shown := b.text("#explanation"); !strings.Contains(shown, "Conflict is True: "+conflict.Reason) {
			return fmt.Errorf("the API says %s, the page shows %s", conflict.Reason, shown)
		}
		return nil
	})
	b.awaitText("table.properties", `<img src=x onerror="window.hacked=1">`)
	b.awaitText("table.properties", `\u202eevil`)
	if read[bool](b, `window.hacked !== undefined || document.querySelector("#details img, #details script") !== null`) {
		t.Error("text of a cluster became markup")
	}

	expect.NoError(t, west().Unexport(t.Context(), ns, "web"))
	east().AwaitImport(t, ns, "web", "east")
	b.expectServices(east(), ns)
	b.await("no conflict", `document.querySelector("#no-conflicts") !== null`)
	expect.NoError(t, east().Unexport(t.Context(), ns, "web"))
	east().AwaitNoImport(t, ns, "web")
	b.expectServices(east(), ns)
	b.await("no row", fmt.Sprintf(`document.querySelector(%q) === null`, row(ns+"/web")))
	b.expectNoOtherRequests(s.base)
}

// R580: the state of a member is that of the API, while the member becomes stale and is connected again.
func TestPageShowsStatesOfMembers(t *testing.T) {
	b := start(t)
	s := serve(t, "", "--context", "east")
	b.open(s)
	state := func() string { return string(memberState(t, east(), "north")) }
	const cell = `document.querySelector("#cluster-table tr[data-cluster=north]")?.dataset.state`
	follow := func(want clustersetv1alpha1.MemberState) {
		expect.Eventually(t, "state "+string(want), func(context.Context) error {
			if shown := read[string](b, cell+` ?? ""`); shown != string(want) || state() != string(want) {
				return fmt.Errorf("the page shows %s, the API has %s", shown, state())
			}
			return nil
		})
	}
	follow(clustersetv1alpha1.MemberConnected)
	east().Links["north"].Cut()
	t.Cleanup(func() { expect.NoError(t, east().Links["north"].Restore()) })
	follow(clustersetv1alpha1.MemberStale)
	b.await("the state in the graph", `[...document.querySelectorAll("#graph .label.state-Stale")].some((label) => label.textContent === "! Stale")`)
	expect.NoError(t, east().Links["north"].Restore())
	follow(clustersetv1alpha1.MemberConnected)
	b.await("the state in the graph", `document.querySelector("#graph .label.state-Stale") === null`)
	b.awaitText("#cluster-table tr[data-cluster=east]", "ms")
	b.expectNoOtherRequests(s.base)
}

func memberState(t *testing.T, in *fleet.Cluster, name string) clustersetv1alpha1.MemberState {
	t.Helper()
	member, err := in.Clientset.ClusterSetV1alpha1().Members().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return ""
	}
	return member.Status.State
}

// R587: the page shows what kubectl mcs doctor prints.
func TestPageShowsWhatTheDoctorFinds(t *testing.T) {
	ns := fleet.CreateNamespace(t, "diagnosed", west(), north()) // not in the east
	west().ExportService(t, ns, "web", []string{"10.9.0.1"})
	north().AwaitImport(t, ns, "web", "west")
	expect.Eventually(t, "conditions of the export", func(ctx context.Context) error { // which are diagnosed twice
		export, err := west().Clientset.MulticlusterXV1beta1().ServiceExports(ns).Get(ctx, "web", metav1.GetOptions{})
		if err == nil && !meta.IsStatusConditionTrue(export.Status.Conditions, "Ready") {
			err = fmt.Errorf("conditions are %+v", export.Status.Conditions)
		}
		return err
	})
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	expect.NoError(t, clusters.WriteKubeconfig(kubeconfig))
	s := serve(t, kubeconfig, "--context", "east", "--contexts", "west")
	b := start(t)
	b.open(s)
	b.awaitText(row(ns+"/web"), "not imported")
	b.do(chromedp.Click(chromedp.CSS(row(ns+"/web"))), chromedp.Click(chromedp.CSS("#diagnose")))
	b.await("the diagnosis", `document.querySelector("#diagnosis .verdict") !== null`)
	output, _ := clusters.KubectlCommand(t.Context(), kubeconfig, "mcs", "doctor", "web", "-n", ns, "--context", "east", "--contexts", "west", "--probe=false", "-o", "json").Output()
	var report struct {
		Verdict     string
		FirstBroken struct{ Hop string }
		Checks      []struct{ Hop, Result string }
	}
	expect.NoError(t, json.Unmarshal(output, &report))
	var want []string
	for _, check := range report.Checks {
		want = append(want, check.Hop+" "+check.Result)
	}
	if got := read[[]string](b, `[...document.querySelectorAll("#diagnosis .path li")].map((check) => check.dataset.hop + " " + check.dataset.result)`); !slices.Equal(got, want) {
		t.Errorf("the page shows %v, the doctor finds %v", got, want)
	}
	if got := read[string](b, `document.querySelector("#diagnosis .verdict").dataset.hop ?? ""`); got != report.FirstBroken.Hop || got == "" {
		t.Errorf("the first broken hop is %s on the page, and %s for the doctor", got, report.FirstBroken.Hop)
	}
	b.awaitText("#no-import", "does not exist in this cluster")
	b.do(chromedp.Click(chromedp.CSS("#check")))
	b.awaitText("#details-title", "ClusterSet")
	b.await("the diagnosis of the ClusterSet", `document.querySelector("#diagnosis .verdict") !== null && document.querySelector("#diagnosis [data-hop=export]") === null`)
	b.expectNoOtherRequests(s.base)
}

// R588: everything can be used with the keyboard.
func TestPageIsUsedWithTheKeyboard(t *testing.T) {
	ns := clusters.CreateNamespace(t, "keys")
	for _, name := range []string{"alpha", "beta", "gamma"} {
		west().ExportService(t, ns, name, []string{"10.9.0.1"})
		east().AwaitImport(t, ns, name, "west")
	}
	s := serve(t, "", "--context", "east")
	b := start(t)
	b.open(s)
	b.await("all services", `document.querySelectorAll("#list li").length >= 3`)
	b.slash()
	b.await("focus in the search", `document.activeElement.id === "search" && document.activeElement.value === ""`)
	b.do(chromedp.KeyEvent(ns + "/"))
	b.await("three services", `document.querySelectorAll("#list li").length === 3 && document.querySelector("#count").textContent.startsWith("3 of ")`)
	b.do(chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.ArrowUp))
	b.await("the second service", fmt.Sprintf(`document.activeElement.id === "list" && document.getElementById(document.activeElement.getAttribute("aria-activedescendant")).dataset.key === %q`, ns+"/beta"))
	b.do(chromedp.KeyEvent(kb.Enter))
	b.await("details", fmt.Sprintf(`!document.querySelector("#details").hidden && document.activeElement.id === "details-title" && document.querySelector("#details").dataset.key === %q`, ns+"/beta"))
	b.do(chromedp.KeyEvent(kb.Escape))
	b.await("no details", `document.querySelector("#details").hidden && document.activeElement.id === "list"`)
	b.slash() // selects what was searched before
	b.do(chromedp.KeyEvent("gamma"), chromedp.KeyEvent(kb.Enter))
	b.await("details of the only one", fmt.Sprintf(`document.querySelector("#details").dataset.key === %q`, ns+"/gamma"))
	// A cluster in the graph is a button.
	b.do(chromedp.Focus(chromedp.CSS(`#graph [data-cluster="north"]`)), chromedp.KeyEvent(kb.Enter))
	b.await("a search for the cluster", `document.querySelector("#search").value === "cluster:north"`)
	b.slash()
	b.do(chromedp.KeyEvent(kb.Escape))
	b.await("no search", `document.querySelector("#search").value === ""`)
	if missing := read[[]string](b, `[...document.querySelectorAll("button, input, [tabindex]")].filter((node) => !(node.textContent || node.getAttribute("aria-label") || node.getAttribute("aria-labelledby") || node.labels?.length)).map((node) => node.outerHTML.slice(0, 80))`); len(missing) > 0 {
		t.Errorf("controls without a name: %v", missing)
	}
	b.expectNoOtherRequests(s.base)
}

// R583: without the token, there is nothing to see.
func TestPageWithoutTokenShowsNothing(t *testing.T) {
	s := serve(t, "", "--context", "east")
	b := start(t)
	b.do(chromedp.Navigate(s.base + "/"))
	b.awaitText("#connection", "No access")
	b.do(chromedp.Navigate(s.base+"/#token=WRONG"), chromedp.Reload())
	b.awaitText("#connection", "No access")
	if shown := b.text("#cluster-table tbody") + b.text("#list"); shown != "" {
		t.Errorf("the page shows %s", shown)
	}
}

// R582: the page says when it is outdated.
func TestPageSaysThatItIsOutdated(t *testing.T) {
	s := serve(t, "", "--context", "east")
	b := start(t)
	b.open(s)
	b.awaitText("#freshness", "last change")
	s.interrupt(t)
	b.awaitText("#connection", "Disconnected")
	b.awaitText("#freshness", "outdated for")
	b.await("what was shown before", `document.querySelectorAll("#cluster-table tbody tr").length === 3`)
}

// R586: what the user may not read is listed by resource.
func TestPageSaysWhatMayNotBeRead(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	expect.NoError(t, east().Plane.WriteUserKubeconfig(kubeconfig, "visitor"))
	s := serve(t, kubeconfig)
	b := start(t)
	b.do(chromedp.Navigate(s.url))
	for _, resource := range []string{"members", "exportedservices", "exportedendpointslices", "serviceimports", "serviceexports"} {
		b.awaitText(fmt.Sprintf("#notices [data-resource=%s]", resource), "permission denied")
	}
	b.expectNoOtherRequests(s.base)
}

// R589: of many services, the page shows some and says how many more there are; a search finds all.
func TestPageLimitsTheList(t *testing.T) {
	ns := clusters.CreateNamespace(t, "many")
	for i := range 210 {
		name := fmt.Sprintf("service-%03d", i)
		expect.Must(west().Service(t.Context(), ns, name))(t)
		expect.Must(west().Export(t.Context(), ns, name))(t)
	}
	s := serve(t, "", "--context", "east")
	b := start(t)
	b.open(s)
	b.do(chromedp.SendKeys(chromedp.CSS("#search"), ns+"/"))
	b.awaitText("#count", "210 of ")
	b.await("the limit", `document.querySelectorAll("#list li").length === 200 && !document.querySelector("#more").hidden`)
	b.awaitText("#more", "and 10 more")
	b.do(chromedp.SendKeys(chromedp.CSS("#search"), "service-209"))
	b.await("the last one", `document.querySelectorAll("#list li").length === 1 && document.querySelector("#more").hidden`)
}

// R588: text has contrast in both color schemes, also on screenshots for the documentation.
func TestScreenshots(t *testing.T) {
	ns := clusters.CreateNamespace(t, "store")
	west().ExportService(t, ns, "checkout", []string{"10.9.0.1", "10.9.0.2"})
	east().AwaitImport(t, ns, "checkout", "west")
	time.Sleep(time.Second) // exports are as old as whole seconds say
	east().ExportService(t, ns, "checkout", []string{"10.8.0.1"}, onPort(8080))
	north().ExportService(t, ns, "cart", []string{"10.7.0.1"})
	expect.Must(west().Service(t.Context(), ns, "search"))(t)
	expect.Must(west().Export(t.Context(), ns, "search"))(t)
	s := serve(t, "", "--context", "east", "--contexts", "west")
	b := start(t)
	b.open(s)
	b.do(chromedp.SendKeys(chromedp.CSS("#search"), ns+"/"))
	b.await("three services", `document.querySelectorAll("#list li").length === 3`)
	b.awaitText(row(ns+"/checkout"), "PortConflict")
	b.do(chromedp.Click(chromedp.CSS(row(ns + "/checkout"))))
	b.awaitText("#winner", "west wins")
	b.awaitText("table.importers", "east")
	for _, scheme := range []string{"light", "dark"} {
		expect.Must(chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}))(t)
		image := expect.Must(chromedp.Run(b.ctx, chromedp.CaptureScreenshot()))(t)
		if background := read[string](b, `getComputedStyle(document.body).backgroundColor`); (background == "rgb(255, 255, 255)") != (scheme == "light") {
			t.Errorf("the background is %s in %s", background, scheme)
		}
		b.expectContrast(scheme)
		if *screenshots != "" {
			expect.NoError(t, os.WriteFile(filepath.Join(east().Root, *screenshots, "ui-"+scheme+".png"), image, 0o644))
		}
	}
	b.expectNoOtherRequests(s.base)
}

// expectContrast fails if text is hard to read: WCAG asks for a contrast of 4.5 (R588).
func (b *browser) expectContrast(scheme string) {
	b.t.Helper()
	const contrast = `(() => {
		const channel = (c) => { c /= 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
		const parse = (color) => (color.match(/[\d.]+/g) ?? []).map(Number);
		const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
		const behind = (node) => { for (; node; node = node.parentElement) { const color = parse(getComputedStyle(node).backgroundColor); if (color.length === 3 || color[3] > 0) return color; } return [255, 255, 255]; };
		const bad = [];
		for (const node of document.querySelectorAll("body *")) {
			if (![...node.childNodes].some((child) => child.nodeType === Node.TEXT_NODE && child.textContent.trim()) || node.getClientRects().length === 0) continue;
			const style = getComputedStyle(node);
			const front = luminance(parse(node instanceof SVGElement ? style.fill : style.color)), back = luminance(behind(node));
			const ratio = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
			if (ratio < 4.5) bad.push(node.textContent.slice(0, 40) + " " + ratio.toFixed(2));
		}
		return bad;
	})()`
	if bad := read[[]string](b, contrast); len(bad) > 0 {
		b.t.Errorf("hard to read in %s: %v", scheme, bad)
	}
}

// annotate changes annotations of a ServiceExport.
func annotate(t *testing.T, in *fleet.Cluster, namespace, name, annotations string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata": {"annotations": %s}}`, annotations)
	expect.Must(in.Clientset.MulticlusterXV1beta1().ServiceExports(namespace).Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}))(t)
}
