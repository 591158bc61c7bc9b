// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/diagnosis"
)

// podTimeout limits how long a Pod may take that another command asks for.
const podTimeout = time.Minute

// Question is what another command wants to know.
type Question struct {
	// Context is that of the importing cluster, Others are those of other clusters.
	Context string
	Others  []string
	// Namespace and Service are empty for the ClusterSet.
	Namespace, Service string
	// Probe lets a Pod look up the service and connect to it.
	Probe bool
}

// Diagnose returns the report that the command prints.
func Diagnose(ctx context.Context, f *cluster.Factory, question Question) (diagnosis.Report, error) {
	importing, err := f.ForContext(question.Context)
	if err != nil {
		return diagnosis.Report{}, err
	}
	o := &options{Factory: f, contexts: question.Others, probe: question.Probe, timeout: podTimeout, declined: "no Pod was asked for"}
	o.output.Format = "json" // the report is data: steps are printed beside it
	return o.diagnoseIn(ctx, importing, question.Namespace, question.Service)
}
