// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"strings"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/commandtest"
)

func TestExplainWithoutTheAPI(t *testing.T) {
	_, errOut, code := commandtest.Servers{{"bare", commandtest.Serving(nil)}}.Run(t, "explain", "web")
	if want := `failed to explain service "web" in namespace "shop": context "bare": mcs-apiserver is not installed, is detached, or did not register its API`; code == 0 || !strings.Contains(errOut, want) {
		t.Errorf("exit code %d, errors %q", code, errOut)
	}
}
