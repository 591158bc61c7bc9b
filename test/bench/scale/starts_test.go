// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"fmt"
	"net/http"
	"time"

	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/test/bench/report"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// maxStart and maxLonely are how long it may take until imports are served after a start, if all
// members are reachable, and if none is.
const maxStart, maxLonely = 30, 15 // seconds

// imports returns how many ServiceImports the kube-apiserver serves. It does not retry what
// fails, which would take whole seconds.
func (r *run) imports(ctx context.Context) (int, error) {
	var list multiclusterxv1beta1.ServiceImportList
	err := r.home.Clientset.MulticlusterXV1beta1().RESTClient().Get().Resource("serviceimports").MaxRetries(0).Do(ctx).Into(&list)
	return len(list.Items), err
}

// measureStarts measures how long it takes from the start of both programs until all imports are
// served through the kube-apiserver.
func (r *run) measureStarts() {
	name := func(what string) string {
		return fmt.Sprintf("start with %d services, %s", *services, what)
	}
	ready, served := r.restart(nil)
	detail := "until all ServiceImports are served; mcs-apiserver is ready after %.2f s"
	r.figure(report.Figure{Name: name("all members reachable"), Unit: report.Seconds, Value: served.Seconds(), Target: maxStart, Detail: fmt.Sprintf(detail, ready.Seconds())})
	r.await("all members read again", r.allRead)
	memory, parts := r.memory()
	peak := report.Figure{Name: fmt.Sprintf("resident memory, peak of a start with %d services", *services), Unit: report.MiB, Value: mebibytes(memory.Peak), Detail: parts}
	if isFull(*services) {
		peak.Target = maxPeak
	}
	r.figure(peak)

	lost := r.slices.lost()
	ready, served = r.restart(func() {
		for _, member := range r.joined {
			member.Silence()
		}
	})
	r.figure(report.Figure{Name: name("no member reachable"), Unit: report.Seconds, Value: served.Seconds(), Target: maxLonely, Detail: fmt.Sprintf(detail, ready.Seconds())})
	begun := time.Now()
	for _, member := range r.joined {
		member.Resume()
	}
	r.await("all members read again", r.allRead)
	r.figure(report.Figure{Name: "all members connected again after that", Unit: report.Seconds, Value: time.Since(begun).Seconds(), Detail: "since they answered"})
	r.kept("start without members", lost)
}

// restart stops both programs, starts them again, and returns how long it takes until mcs-apiserver
// is ready, and until all imports are served. Between may change what they find.
func (r *run) restart(between func()) (ready, served time.Duration) {
	before := expect.Must(r.imports(r.Context()))(r.T)
	server := r.home.APIServers[0]
	r.await("all that members export recorded", func(ctx context.Context) error {
		pending, err := server.Metric(ctx, "mcs_apiserver_member_records_pending")
		if err == nil && pending > 0 {
			err = fmt.Errorf("%v records are pending", pending)
		}
		return err
	})
	r.home.AwaitRecorded(r.T)
	expect.NoError(r.T, r.home.Stop())
	if between != nil {
		between()
	}
	begun := time.Now()
	expect.NoError(r.T, r.home.StartAPIServers())
	expect.NoError(r.T, r.home.StartController(r.Context()))
	r.await("mcs-apiserver ready", func(ctx context.Context) error {
		status, text, err := server.Health(ctx, "/readyz")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%.200s", text)
		}
		return err
	})
	ready = time.Since(begun)
	r.await("all ServiceImports served", func(ctx context.Context) error {
		found, err := r.imports(ctx)
		if err == nil && found != before {
			err = fmt.Errorf("%d of %d", found, before)
		}
		return err
	})
	return ready, time.Since(begun)
}

// kept reports how many of the imported endpoints were never withdrawn since lost ones were counted.
func (r *run) kept(what string, lost int) {
	_, all := r.slices.counts()
	withdrawn := r.slices.lost() - lost
	r.figure(report.Figure{Name: "imported endpoints that stay, " + what, AtLeast: true, Target: float64(all), Value: float64(all - withdrawn), Detail: fmt.Sprintf("%d withdrawn", withdrawn)})
}

// measureLoss silences half of the members for less than their TTL, and measures how long it takes
// until all are connected again.
func (r *run) measureLoss() {
	r.awaitQuiet()
	lost := r.slices.lost()
	half := r.joined[:(len(r.joined)+1)/2]
	for _, member := range half {
		member.Silence()
	}
	before := r.usage()
	r.progress("%d of %d members are silent", len(half), len(r.joined))
	r.pause(*silence)
	missing := r.allRead(r.Context())
	if missing == nil {
		r.Errorf("all members are connected although half of them were silent for %s", *silence)
	}
	r.progress("then: %v", missing)
	begun := time.Now()
	for _, member := range half {
		member.Resume()
	}
	r.await("all members connected again", r.allRead)
	took := time.Since(begun)
	used := r.usage().minus(before)
	r.figure(report.Figure{Name: fmt.Sprintf("all members connected again after %d of %d were silent for %s", len(half), len(r.joined), *silence), Unit: report.Seconds, Value: took.Seconds(),
		Detail: fmt.Sprintf("since they answered; processor time meanwhile: mcs-apiserver %.1fs, mcs-controller %.1fs", used.apiserver.Seconds(), used.controller.Seconds())})
	r.pause(5 * time.Second) // what would be withdrawn because of what was read again
	r.kept("half of the members silent", lost)
}
