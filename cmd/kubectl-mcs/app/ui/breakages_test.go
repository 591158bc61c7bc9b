// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/doctor"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/explain"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/diagnosis"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/diagnosis/diagnosistest"
)

// glance is what the page shows of a breakage before anybody asks the doctor.
type glance struct {
	// condition is empty if the service is not in the list. Then the check of the ClusterSet shows the
	// breakage.
	condition condition
	summary   string
	// problem is that of the member in the table of clusters.
	problem string
}

const looksWell = "2 ready endpoints in 1 clusters"

// glances are those of all breakages.
var glances = map[string]glance{
	"no namespace":        {conditionProblem, "not imported in this cluster", ""},
	"no endpoints":        {conditionProblem, "no ready endpoints", ""},
	"wrong port":          {conditionOK, looksWell, ""},
	"conflicting type":    {conditionProblem, "conflict: TypeConflict", ""},
	"cut link":            {conditionWarning, "west is Stale", "Unreachable: no connection"},
	"expired credential":  {conditionProblem, "no endpoints in use: west is Lost", "Unauthorized: the credential expired at noon"},
	"wrong ID":            {"", "", `WrongClusterID: cluster ID is "north"`},
	"no DNS block":        {conditionOK, looksWell, ""},
	"kube-proxy stopped":  {conditionOK, looksWell, ""},
	"packets are dropped": {conditionOK, looksWell, ""},
	"server is down":      {},
	"CRD in the way":      {},
}

// R581: the list and the table of clusters show a breakage as far as the API says it.
func TestBreakagesAtAGlance(t *testing.T) {
	if len(diagnosistest.Breakages) != 12 {
		t.Errorf("got %d breakages", len(diagnosistest.Breakages))
	}
	for _, breakage := range diagnosistest.Breakages {
		t.Run(breakage.Name, func(t *testing.T) {
			want, ok := glances[breakage.Name]
			if !ok {
				t.Fatal("nobody says what the page shows")
			}
			known := breakage.Facts(false).Importing
			facts := serviceFacts{
				cluster: "east", importsKnown: known.Path.Import.Failure == "", exportsKnown: known.Path.Exports.Failure == "", slicesKnown: known.Path.Endpoints.Failure == "",
				Facts: explain.Facts{
					Context: known.Context, Namespace: "shop", Service: "web", Members: known.Members.Value, MembersKnown: known.Members.Failure == "",
					Exports: known.Path.Exports.Value, Slices: known.Path.Endpoints.Value, ServiceImport: known.Path.Import.Value,
				},
			}
			if exists([]serviceFacts{facts}) != (want.condition != "") {
				t.Errorf("the list has the service: %t", want.condition == "")
			} else if row := newServiceRow([]serviceFacts{facts}, 1); want.condition != "" && (row.Condition != want.condition || row.Summary != want.summary) {
				t.Errorf("got %s: %s, want %s: %s", row.Condition, row.Summary, want.condition, want.summary)
			}
			problems := ""
			for i := range known.Members.Value {
				member := &known.Members.Value[i]
				for _, link := range newClusterNode(member.Name, []opinion{{known.Context, "east", member}}).Links {
					problems += strings.Join(link.Problems, "; ")
				}
			}
			if problems != want.problem {
				t.Errorf("got problems of members %q, want %q", problems, want.problem)
			}
		})
	}
}

// R587: of every breakage, the page receives the cause and what to do: without a Pod, unless only a Pod
// notices it. If the service is not in the list, the check of the ClusterSet has the cause.
func TestBreakagesAreDiagnosed(t *testing.T) {
	for _, breakage := range diagnosistest.Breakages {
		t.Run(breakage.Name, func(t *testing.T) {
			s := newServer(newBoard([]*cluster.Cluster{exporting()}, ""), func(_ context.Context, question doctor.Question) (diagnosis.Report, error) {
				facts := breakage.Facts(question.Probe)
				if question.Service == "" {
					facts.Namespace, facts.Service, facts.Importing.Path, facts.Probe = "", "", diagnosis.Path{}, diagnosis.Probe{}
				}
				return diagnosis.Diagnose(facts), nil
			})
			guarded := newGuard(testToken, []string{testHost}, s.handler())
			ask := func(method, path, body string) (report diagnosis.Report) {
				recorded := httptest.NewRecorder()
				guarded.ServeHTTP(recorded, newRequest(method, path, func(r *http.Request) {
					r.Header.Set("Content-Type", "application/json")
					r.Body = io.NopCloser(strings.NewReader(body))
				}))
				if err := json.Unmarshal(recorded.Body.Bytes(), &report); err != nil || recorded.Code != http.StatusOK {
					t.Fatalf("got status %d, %v: %s", recorded.Code, err, recorded.Body)
				}
				return report
			}
			expectCause := func(report diagnosis.Report) {
				t.Helper()
				first := report.FirstBroken
				if first == nil || first.Hop != breakage.Hop || first.Reason != breakage.Reason || !strings.Contains(first.Message, breakage.Message) {
					t.Fatalf("got %+v, want %s %s: %s", first, breakage.Hop, breakage.Reason, breakage.Message)
				}
				if first.Remedy+first.Command == "" || first.Docs == "" || first.Context == "" {
					t.Errorf("what to do is missing: %+v", first)
				}
				for _, check := range report.Checks {
					if check.Result == diagnosis.Broken && check.Hop != breakage.Hop && check.ConsequenceOf != breakage.Hop {
						t.Errorf("also broken: %+v", check)
					}
				}
			}
			expectCause(ask(http.MethodPost, doctorPath, `{"namespace":"shop","service":"web"}`))
			if plain := ask(http.MethodGet, doctorPath+"?namespace=shop&service=web", ""); !breakage.NeedsPod {
				expectCause(plain)
			} else if plain.FirstBroken != nil || plain.Responds {
				t.Errorf("got %+v, responds %t without a Pod", plain.FirstBroken, plain.Responds)
			}
			if glances[breakage.Name].condition == "" {
				expectCause(ask(http.MethodGet, doctorPath, ""))
			}
		})
	}
}

// R587: the page shows everything that a finding of the doctor has but the object, which its command names.
func TestPageShowsAllOfAFinding(t *testing.T) {
	script := file(t, "details.js")
	for _, shown := range []struct {
		of       reflect.Type
		variable string
		without  string
	}{
		{reflect.TypeFor[diagnosis.Check](), `(check|first|firstBroken)`, "object"},
		{reflect.TypeFor[diagnosis.Report](), `report`, "context clusterID clusterSet namespace"}, // of the heading of the page
	} {
		for i := range shown.of.NumField() {
			name, _, _ := strings.Cut(shown.of.Field(i).Tag.Get("json"), ",")
			if name == "" || strings.Contains(shown.without, name) {
				continue
			}
			if !regexp.MustCompile(shown.variable + `\??\.` + name + `\b`).MatchString(script) {
				t.Errorf("%s %s is not shown", shown.of.Name(), name)
			}
		}
	}
}
