// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/expect"
)

func TestOnlyYesConfirms(t *testing.T) {
	for answer, want := range map[string]bool{"y\n": true, "Yes\n": true, " y \n": true, "y": true, "": false, "\n": false, "n\n": false, "yellow\n": false} {
		streams, in, out, _ := genericiooptions.NewTestIOStreams()
		in.WriteString(answer)
		err := (&cluster.Factory{Streams: streams}).Confirm("Continue?")
		if (err == nil) != want {
			t.Errorf("answer %q: got %v", answer, err)
		}
		if err != nil {
			expect.Error(t, err, "--yes")
		}
		if text := out.String(); text != "Continue? [y/N]: " && text != "Continue? [y/N]: \n" {
			t.Errorf("asked %q", text)
		}
	}
}
