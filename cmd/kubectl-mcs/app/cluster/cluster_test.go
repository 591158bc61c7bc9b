// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/commandtest"
)

// The flag --request-timeout limits each request, not all of them together.
func TestRequestTimeoutDisablesTheDefaultTimeout(t *testing.T) {
	for value, want := range map[string]time.Duration{"": time.Minute, "0": 0, "2s": 0, "5m": 0} {
		f := &cluster.Factory{Flags: cluster.ConfigFlags(), Changed: func(string) bool { return value != "" }}
		*f.Flags.Timeout = value
		ctx, cancel, err := f.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		deadline, limited := ctx.Deadline()
		if err != nil || limited != (want > 0) || limited && time.Until(deadline) > want {
			t.Errorf("--request-timeout=%s: deadline %s (%v)", value, deadline, err)
		}
	}
}

// An unresponsive cluster must not block the shell.
func TestCompletionHasATimeout(t *testing.T) {
	file := commandtest.Kubeconfig(t, map[string]string{"east": "https://east.example"})
	f := &cluster.Factory{Flags: cluster.ConfigFlags()}
	*f.Flags.KubeConfig, *f.Flags.Context = file, "east"
	limitedList := false
	f.Complete(t.Context(), func(ctx context.Context, _ *cluster.Cluster, _ string) ([]string, error) {
		_, limited := ctx.Deadline()
		limitedList = limited
		return nil, nil
	})
	if !limitedList {
		t.Error("names are not listed, or without a deadline")
	}
}

// R630: of several names that are separated by commas, the last is completed, and none that is given already.
func TestCompletionOfSeveralNames(t *testing.T) {
	f := &cluster.Factory{Flags: cluster.ConfigFlags()}
	*f.Flags.KubeConfig, *f.Flags.Context = commandtest.Kubeconfig(t, map[string]string{"east": "https://east.example"}), "east"
	complete := f.CompleteList(func(context.Context, *cluster.Cluster, string) ([]string, error) {
		return []string{"hub", "north", "west"}, nil
	})
	cmd := &cobra.Command{}
	cmd.SetContext(t.Context())
	for toComplete, want := range map[string][]string{
		"": {"hub", "north", "west"}, "no": {"hub", "north", "west"}, "west,": {"west,hub", "west,north"}, "size=small,hub,w": {"size=small,hub,north", "size=small,hub,west"},
	} {
		if got, directive := complete(cmd, nil, toComplete); !slices.Equal(got, want) || directive != cobra.ShellCompDirectiveNoFileComp {
			t.Errorf("%q: got %q, %d", toComplete, got, directive)
		}
	}
}
