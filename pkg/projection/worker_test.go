// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/component-base/metrics/testutil"
)

// panickingLister panics for namespace ns as many times as remaining says.
type panickingLister struct {
	corev1listers.NamespaceLister
	remaining atomic.Int64
}

func (l *panickingLister) Get(name string) (*corev1.Namespace, error) {
	if name == "ns" && l.remaining.Add(-1) >= 0 {
		panic("namespace lister panics")
	}
	return l.NamespaceLister.Get(name)
}

// A panic while a key is processed is counted and the key is retried. All other
// keys are processed.
func TestPanicInOneKeyDoesNotEndTheProcess(t *testing.T) {
	c := newCluster(t)
	lister := &panickingLister{NamespaceLister: c.namespaces}
	c.namespaces = lister
	otherService, otherExport := service("db"), exportFor("db")
	otherService.Namespace, otherExport.Namespace = "other", "other"
	c.add(namespace("other"), service("web"), exportFor("web"), otherService, otherExport)
	stop := run(c)
	defer stop()

	before := panicCount(t)
	lister.remaining.Store(1 << 30)
	c.stores.serviceImports.Delete("ns", "web")
	c.enqueueService(web)
	eventually(t, "the key is retried after a panic", func() bool { return panicCount(t) >= before+2 })
	c.stores.serviceImports.Delete("other", "db")
	c.nameChanged(otherExport)
	eventually(t, "another key is processed", func() bool {
		_, ok := c.stores.serviceImports.Get("other", "db")
		return ok
	})
	lister.remaining.Store(0)
	eventually(t, "the key succeeds", func() bool { return c.imported("web") != nil })
}

func TestPanicAtStartupIsRetried(t *testing.T) {
	c := newCluster(t)
	lister := &panickingLister{NamespaceLister: c.namespaces}
	c.namespaces = lister
	c.add(service("web"), exportFor("web"))
	before := panicCount(t)
	lister.remaining.Store(1)
	ran(c)
	if c.imported("web") == nil || panicCount(t) != before+1 {
		t.Errorf("the import is %v after %v panics", c.imported("web"), panicCount(t)-before)
	}
}

func panicCount(t *testing.T) float64 {
	t.Helper()
	count, err := testutil.GetCounterMetricValue(panics)
	if err != nil {
		t.Fatal(err)
	}
	return count
}
