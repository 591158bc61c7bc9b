// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"testing"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/commandtest"
)

// What the user says is for one request. It does not cut short all of them.
func TestUserSaysHowLongToWaitForClusters(t *testing.T) {
	for given, want := range map[string]time.Duration{"": time.Minute, "0": 0, "2s": 0, "5m": 0} {
		f := &cluster.Factory{Flags: cluster.ConfigFlags(), Given: func(string) bool { return given != "" }}
		*f.Flags.Timeout = given
		ctx, cancel, err := f.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		deadline, limited := ctx.Deadline()
		if err != nil || limited != (want > 0) || limited && time.Until(deadline) > want {
			t.Errorf("--request-timeout=%s: until %s (%v)", given, deadline, err)
		}
	}
}

// A shell must not hang because a cluster does.
func TestCompletionDoesNotWaitForever(t *testing.T) {
	file := commandtest.Kubeconfig(t, map[string]string{"east": "https://east.example"})
	f := &cluster.Factory{Flags: cluster.ConfigFlags()}
	*f.Flags.KubeConfig, *f.Flags.Context = file, "east"
	asked := false
	f.Complete(t.Context(), func(ctx context.Context, _ *cluster.Cluster, _ string) ([]string, error) {
		_, limited := ctx.Deadline()
		asked = limited
		return nil, nil
	})
	if !asked {
		t.Error("it has not been asked, or may be for as long as it takes")
	}
}
