// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package unexport_test

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/clustertest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/commandtest"
)

// A missing API must not be mistaken for a missing object.
func TestUnexportWithoutTheAPI(t *testing.T) {
	_, errOut, code := commandtest.Servers{{"bare", commandtest.Serving(nil)}}.Run(t, "unexport", "web", "--ignore-not-found")
	if code == 0 {
		t.Errorf("exit code 0: %s", errOut)
	}
	missing := apierrors.NewGenericServerResponse(404, "delete", clustertest.ServiceExports, "web", "404 page not found", 0, true)
	if cluster.IsObjectNotFound(missing) || !cluster.IsObjectNotFound(apierrors.NewNotFound(clustertest.ServiceExports, "web")) {
		t.Error("missing API is mistaken for a missing object")
	}
}
