// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mcs-apiserver/mcs-apiserver/test/chaos/history"
)

// fakeAPI accepts all changes, unless it is told otherwise.
type fakeAPI struct {
	err      error
	happened bool
}

func (a fakeAPI) Make(context.Context, history.Change) (time.Time, error) { return time.Time{}, a.err }
func (a fakeAPI) Happened(context.Context, history.Change) (bool, error)  { return a.happened, nil }

// play runs a load for a time, and returns the changes of every service in order, and all
// outcomes.
func play(t *testing.T, seed uint64, api API, duration time.Duration) (changes map[string][]history.Change, outcomes []string) {
	t.Helper()
	changes = map[string][]history.Change{}
	var mu sync.Mutex
	synctest.Test(t, func(t *testing.T) {
		l := New(&Load{Seed: seed, Clusters: []string{"east", "west"}, APIs: map[string]API{"east": api, "west": api}, Unknown: Unknown, Record: func(entry history.Entry) {
			mu.Lock()
			defer mu.Unlock()
			if entry.Invoke != nil {
				key := entry.Invoke.Cluster + " " + entry.Invoke.String()
				change := *entry.Invoke
				change.ID = 0
				changes[key] = append(changes[key], change)
			}
			if entry.Complete != nil {
				outcomes = append(outcomes, entry.Complete.Outcome)
			}
		}})
		ctx, cancel := context.WithTimeout(t.Context(), duration)
		defer cancel()
		l.Run(ctx)
	})
	return changes, outcomes
}

// R326: changes follow from the seed.
func TestChangesFollowFromTheSeed(t *testing.T) {
	first, _ := play(t, 1, fakeAPI{}, time.Minute)
	again, _ := play(t, 1, fakeAPI{}, time.Minute)
	other, _ := play(t, 2, fakeAPI{}, time.Minute)
	if !reflect.DeepEqual(first, again) || reflect.DeepEqual(first, other) {
		t.Error("the same seed gives other changes, or another seed the same")
	}
	operations, total := map[string]bool{}, 0
	for service, changes := range first {
		if total += len(changes); slices.ContainsFunc(changes, func(c history.Change) bool { return c.Namespace == Steady }) {
			t.Errorf("%s changes", service)
		}
		for _, change := range changes {
			operations[change.Operation] = true
		}
	}
	if want := []string{history.CreateService, history.DeleteService, history.Export, history.SetEndpoints, history.Unexport}; !slices.Equal(slices.Sorted(maps.Keys(operations)), want) {
		t.Errorf("operations are %v, want %v", operations, want)
	}
	if perSecond := total / 60; perSecond < 3 || perSecond > 14 { // in two of three clusters
		t.Errorf("%d changes a second", perSecond)
	}
}

// R320: an error is a failure only if the change certainly has not happened; otherwise the
// outcome is unknown, until the test has looked.
func TestOutcomesAreWhatTheTestCanKnow(t *testing.T) {
	resource := schema.GroupResource{Resource: "services"}
	for _, test := range []struct {
		name string
		api  fakeAPI
		want []string
	}{
		{"accepted", fakeAPI{}, []string{history.OK}},
		{"refused", fakeAPI{err: apierrors.NewNotFound(resource, "web")}, []string{history.Fail}},
		{"no answer, happened", fakeAPI{err: errors.New("connection reset"), happened: true}, []string{history.OK, history.Unknown}},
		{"no answer, not happened", fakeAPI{err: context.DeadlineExceeded}, []string{history.Fail, history.Unknown}},
		{"unavailable", fakeAPI{err: apierrors.NewServiceUnavailable("no endpoints")}, []string{history.Fail, history.Unknown}},
		{"exists already, by the first attempt", fakeAPI{err: apierrors.NewAlreadyExists(resource, "web"), happened: true}, []string{history.OK, history.Unknown}},
	} {
		_, outcomes := play(t, 1, test.api, 10*time.Second)
		slices.Sort(outcomes)
		if got := slices.Compact(outcomes); !slices.Equal(got, test.want) {
			t.Errorf("%s: outcomes are %v, want %v", test.name, got, test.want)
		}
	}
}
