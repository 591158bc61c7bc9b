// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package virtual

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	SupportWatchProgress()
	goleak.VerifyTestMain(m,
		// After each consistent read the watch cache keeps a goroutine for three
		// seconds.
		goleak.IgnoreAnyFunction("k8s.io/apiserver/pkg/storage/cacher.(*watchCache).waitUntilFreshAndBlock.func2"),
		// Both are started once per process and never end.
		goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"),
		goleak.IgnoreAnyFunction("k8s.io/client-go/util/workqueue.(*Typed[...]).updateUnfinishedWorkLoop"),
	)
}
