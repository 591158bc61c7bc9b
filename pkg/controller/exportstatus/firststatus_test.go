// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package exportstatus

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

// writtenAfter syncs an export some time after the first sync, and returns the reason of the
// condition Ready, empty if nothing was written.
func (f *controllerFixture) writtenAfter(t *testing.T, wait time.Duration) (reason string) {
	t.Helper()
	f.clock.SetTime(epoch.Add(wait))
	f.written = nil
	if err := f.sync(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	if f.written == nil {
		return ""
	}
	return meta.FindStatusCondition(f.written.Status.Conditions, multicluster.ServiceExportReady).Reason
}

// R655: the status of a new export is written once, when it is exported, unless that takes
// longer than usual.
func TestFirstStatusOfANewExportIsWrittenOnce(t *testing.T) {
	f := newFixture(t, epoch, newExport(), newService(), localMember())
	if got := f.writtenAfter(t, 0); got != "" {
		t.Errorf("%s was written before mcs-apiserver had time to export the Service", got)
	}
	if err := f.exported.Add(exported("here", "export", 1)); err != nil {
		t.Fatal(err)
	}
	if got := f.writtenAfter(t, 20*time.Millisecond); got != reasonReady && got != "Exported" {
		t.Errorf("got reason %q of an export that is exported", got)
	}
	if len(f.unserved) > 0 {
		t.Errorf("%d exports wait", len(f.unserved))
	}
}

func TestExportThatIsNotExportedForLongIsPending(t *testing.T) {
	f := newFixture(t, epoch, newExport(), newService(), localMember())
	if got := f.writtenAfter(t, 0); got != "" {
		t.Errorf("%s was written at once", got)
	}
	again := newExport()
	again.UID = "again" // deleted and created again
	if err := f.own.Update(again); err != nil {
		t.Fatal(err)
	}
	if got := f.writtenAfter(t, 900*time.Millisecond); got != "" {
		t.Errorf("%s was written at once for another export of the same name", got)
	}
	if got := f.writtenAfter(t, 1899*time.Millisecond); got != "" {
		t.Errorf("%s was written too early", got)
	}
	if got := f.writtenAfter(t, 1900*time.Millisecond); got != reasonPending {
		t.Errorf("got reason %q, want %s", got, reasonPending)
	}
	if err := f.own.Delete(again); err != nil {
		t.Fatal(err)
	}
	if got := f.writtenAfter(t, 2*time.Second); got != "" || len(f.unserved) > 0 {
		t.Errorf("%q was written for a deleted export, and %d wait", got, len(f.unserved))
	}
}

// What mcs-apiserver cannot change is said at once, and so is any change of what was said.
func TestStatusDoesNotWaitForAnythingElse(t *testing.T) {
	said := newExport()
	said.Status.Conditions = conditions(said, facts{self: self("")})
	for name, objects := range map[string][]runtime.Object{
		"no Service":    {newExport(), localMember()},
		"no ClusterSet": {newExport(), newService(), self("")},
		"no cluster ID": {newExport(), newService()},
		"has a status":  {said, newService(), localMember()},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, epoch, objects...)
			if got := f.writtenAfter(t, 0); got == "" {
				t.Error("nothing was written")
			}
		})
	}
}
