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
		// The watch cache lets a goroutine sleep out its three seconds after
		// each consistent read, whether it still waits or not.
		goleak.IgnoreAnyFunction("k8s.io/apiserver/pkg/storage/cacher.(*watchCache).waitUntilFreshAndBlock.func2"),
		// Both are started once per process and have no end.
		goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"),
		goleak.IgnoreAnyFunction("k8s.io/client-go/util/workqueue.(*Typed[...]).updateUnfinishedWorkLoop"),
	)
}
