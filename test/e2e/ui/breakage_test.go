// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/diagnosis"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/diagnosis/diagnosistest"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// R587: of all ways in which test/e2e/doctor breaks a service, the page shows where it is broken, why, and
// what to do, and nothing else as a cause. The answers of the doctor are those that it gives for these facts.
func TestPageShowsEveryBreakage(t *testing.T) {
	ns := clusters.CreateNamespace(t, "broken")
	west().ExportService(t, ns, "web", []string{"10.9.0.1"})
	east().AwaitImport(t, ns, "web", "west")
	s := serve(t, "", "--context", "east")
	b := start(t)
	b.open(s)
	b.awaitText(row(ns+"/web"), "1 ready endpoints in 1 clusters")
	b.do(chromedp.Click(chromedp.CSS(row(ns + "/web"))))
	b.awaitText("table.exports", "west")
	b.script(`const original = window.fetch;
		window.fetch = (path, options) => String(path).startsWith("/api/doctor")
			? Promise.resolve(new Response(window.reports[options.method ?? "GET"], { headers: { "Content-Type": "application/json" } })) : original(path, options)`)
	for _, breakage := range diagnosistest.Breakages {
		t.Run(strings.ReplaceAll(breakage.Name, " ", "-"), func(t *testing.T) {
			b := &browser{t: t, ctx: b.ctx}
			withPod, without := diagnosis.Diagnose(breakage.Facts(true)), diagnosis.Diagnose(breakage.Facts(false))
			b.script(fmt.Sprintf(`window.reports = { POST: %q, GET: %q }`, expect.Must(json.Marshal(withPod))(t), expect.Must(json.Marshal(without))(t)))
			b.diagnose("#diagnose")
			if !breakage.NeedsPod {
				b.expectCause(without)
			} else if shown := b.text("#diagnosis .verdict"); !strings.Contains(shown, "? Nothing is broken as far as the clusters say. Whether the service responds is tried with a Pod") {
				t.Errorf("without a Pod, the page shows %s", shown)
			}
			b.diagnose("#probe")
			b.expectCause(withPod)
		})
	}
}

// diagnose presses a button, and waits for the diagnosis.
func (b *browser) diagnose(button string) {
	b.t.Helper()
	b.script(fmt.Sprintf(`document.querySelector("#diagnosis").replaceChildren(); document.querySelector(%q).click()`, button))
	b.await("the diagnosis", `document.querySelector("#diagnosis .verdict") !== null && !document.querySelector("#diagnose").hasAttribute("aria-disabled")`)
}

// expectCause fails unless the page shows the first thing that is broken, and no other cause.
func (b *browser) expectCause(report diagnosis.Report) {
	b.t.Helper()
	first, shown := report.FirstBroken, b.text("#diagnosis")
	for _, text := range []string{"✗ First broken hop: " + string(first.Hop) + " (context " + first.Context + ")", first.String(), first.Remedy, first.Command, first.Docs} {
		if !strings.Contains(shown, text) {
			b.t.Errorf("the page does not show %q: %s", text, shown)
		}
	}
	if causes := read[[]string](b, `[...new Set([...document.querySelectorAll("#diagnosis .result-Broken")].map((check) => check.dataset.hop))]`); len(causes) != 1 || causes[0] != string(first.Hop) {
		b.t.Errorf("the page shows the causes %v, and not only %s", causes, first.Hop)
	}
}
