// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"fmt"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/tcplink"
)

// script runs statements in the page.
func (b *browser) script(statements string) {
	b.t.Helper()
	read[bool](b, "(() => {"+statements+"; return true; })()")
}

// pass waits until some time has passed in which the page rendered several changes: members are seen every few
// seconds.
func (b *browser) pass(duration time.Duration) {
	b.t.Helper()
	b.script(fmt.Sprintf(`window.until = Date.now() + %d; window.rendered = Number(document.body.dataset.rendered)`, duration.Milliseconds()))
	b.await("changes", `Date.now() > window.until && Number(document.body.dataset.rendered) > window.rendered + 2`)
}

// R588: the focus, the position and what is selected stay while members change.
func TestPageKeepsTheFocus(t *testing.T) {
	s := serve(t, "", "--context", "east", "--contexts", "west")
	b := start(t)
	b.open(s)
	b.do(chromedp.EmulateViewport(600, 300), chromedp.Focus(chromedp.CSS(`#graph [data-cluster="north"]`)))
	// Where the row is in the window counts, whatever the height of what is above it becomes.
	b.script(`window.focused = document.activeElement; window.node = document.querySelector("#cluster-table tr[data-cluster=north]");
		window.node.scrollIntoView({ block: "center" }); window.position = window.node.getBoundingClientRect().top;
		window.getSelection().selectAllChildren(window.node.querySelector("th"))`)
	b.pass(10 * time.Second)
	if got := read[string](b, `[document.activeElement === window.focused, document.querySelector("#cluster-table tr[data-cluster=north]") === window.node, window.scrollY > 0,
		window.getSelection().toString().trim(), Math.round(window.node.getBoundingClientRect().top - window.position)].join()`); got != "true,true,true,north,0" {
		t.Errorf("focus, row, scrolled, selection, moved by: got %s, want true,true,true,north,0", got)
	}
	// A click is not lost although the page renders between its two halves.
	b.script(`window.focused.dispatchEvent(new MouseEvent("click", { bubbles: true }))`)
	b.await("a search for the cluster", `document.querySelector("#search").value === "cluster:north"`)
	// Buttons keep the focus while a diagnosis runs; without services, the search gets it.
	b.do(chromedp.Focus(chromedp.CSS("#check")))
	b.script(`document.querySelector("#check").click(); document.querySelector("#diagnose").focus()`)
	b.await("the diagnosis", `document.querySelector("#diagnosis .verdict") !== null && document.activeElement.id === "diagnose" && !document.querySelector("#diagnose").hasAttribute("aria-disabled")`)
	b.script(`const search = document.querySelector("#search"); search.value = "no-such-service"; search.dispatchEvent(new Event("input")); document.querySelector("#close").click()`)
	b.await("the focus in the search", `document.activeElement.id === "search"`)
}

// R581, R582: details are requested only if something changed, and shown although members change while they are read. What cannot be
// shown hides nothing else.
func TestPageReadsDetailsOnce(t *testing.T) {
	ns := clusters.CreateNamespace(t, "slow")
	west().ExportService(t, ns, "web", []string{"10.9.0.1"})
	east().AwaitImport(t, ns, "web", "west")
	s := serve(t, "", "--context", "east")
	b := start(t)
	b.open(s)
	b.awaitText(row(ns+"/web"), "1 ready endpoints in 1 clusters")
	b.script(`window.asked = 0; window.delay = 8000; window.change = (details) => details;
		const original = window.fetch;
		window.fetch = async (path, options) => {
			if (!String(path).startsWith("/api/service")) return original(path, options);
			window.asked++;
			const details = await (await original(path, options)).json();
			await new Promise((resolve) => setTimeout(resolve, window.delay));
			return new Response(JSON.stringify(window.change(details)), { headers: { "Content-Type": "application/json" } });
		}`)
	b.do(chromedp.Click(chromedp.CSS(row(ns + "/web"))))
	b.awaitText("table.exports", "west")
	b.script(`window.delay = 0; window.before = window.asked`)
	b.pass(10 * time.Second)
	if asked := read[int](b, `window.asked - window.before`); asked > 1 {
		t.Errorf("details were requested %d times although nothing changed", asked)
	}
	b.script(`window.change = (details) => { details.explanation.dns = null; details.explanation.properties = 7; return details; }`)
	expect.Must(west().EndpointSlice(t.Context(), ns, "web", []string{"10.9.0.1", "10.9.0.2"}))(t)
	b.awaitText("table.exports", "2/2")
	b.awaitText("#explanation", "This cannot be shown")
	b.awaitText("table.importers", "east")
}

// R582: a page that is not visible is not connected, and connects again.
func TestPageThatIsNotVisibleDisconnects(t *testing.T) {
	s := serve(t, "", "--context", "east")
	b := start(t)
	b.open(s)
	hide := func(hidden bool) {
		b.script(fmt.Sprintf(`Object.defineProperty(document, "hidden", { configurable: true, get: () => %t }); document.dispatchEvent(new Event("visibilitychange"))`, hidden))
	}
	hide(true)
	b.await("the pause", `document.body.dataset.connection === "paused"`)
	hide(false)
	b.await("the connection", `document.body.dataset.connection === "connected"`)
	b.awaitText("#connection", "Live")
}

// R582: the page says that a cluster does not answer although kubectl mcs ui does.
func TestPageSaysThatAClusterDoesNotAnswer(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	expect.NoError(t, clusters.WriteKubeconfig(kubeconfig))
	config := expect.Must(clientcmd.LoadFromFile(kubeconfig))(t)
	target := expect.Must(url.Parse(config.Clusters["east"].Server))(t)
	link := expect.Must(tcplink.New("127.0.0.1:0", target.Host))(t)
	t.Cleanup(func() { link.Close() })
	config.Clusters["east"].Server = "https://" + link.Address()
	expect.NoError(t, clientcmd.WriteToFile(*config, kubeconfig))
	s := serve(t, kubeconfig, "--context", "east")
	b := start(t)
	b.open(s)
	b.awaitText("#connection", "● Live")
	expect.NoError(t, link.Hang())
	b.awaitText("#connection", "Outdated: context east since")
	b.await("the state in the graph", `document.querySelector("#graph .edge.outdated") !== null && [...document.querySelectorAll("#graph .label")].some((label) => label.textContent === "? Connected")`)
	expect.NoError(t, link.Restore())
	b.awaitText("#connection", "● Live")
}

// R582: ages are not those of the clock of the browser.
func TestPageSaysThatTheClockOfTheBrowserDiffers(t *testing.T) {
	s := serve(t, "", "--context", "east")
	b := start(t)
	b.open(s)
	b.script(`const now = Date.now; Date.now = () => now() - 600000`)
	b.awaitText("#notices .clock", "The clock of the browser is 10 min behind that of kubectl mcs ui")
	b.await("ages by another clock", `/seen \d{1,2} s ago/.test(document.querySelector("#cluster-table tr[data-cluster=west]").textContent)`)
}
