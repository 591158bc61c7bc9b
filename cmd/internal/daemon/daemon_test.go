// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"context"
	"testing"

	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/logs"
	"k8s.io/component-base/version"
)

// R345: a program prints its own name with its version, and does not run.
func TestVersionHasTheNameOfTheProgram(t *testing.T) {
	cmd := NewCommand("mcs-test", "", cliflag.NamedFlagSets{}, logs.NewOptions(), func(context.Context) error {
		t.Error("the program runs")
		return nil
	})
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"--version"})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	if want := "mcs-test " + version.Get().String() + "\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

// Two sections have flags of logs: those of the library for logs count, every time.
func TestFlagsOfLogsAreAlwaysTheSame(t *testing.T) {
	for range 50 {
		options := logs.NewOptions()
		cmd := NewCommand("mcs-test", "", cliflag.NamedFlagSets{}, options, nil)
		if err := cmd.Flags().Set("vmodule", "feed=4"); err != nil {
			t.Fatal(err)
		}
		if len(options.VModule) != 1 {
			t.Fatal("--vmodule has no effect on the options of logs")
		}
	}
}
