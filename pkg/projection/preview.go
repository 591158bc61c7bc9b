// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/export"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/merge"
)

// Preview says what somebody who writes this export ought to know: the
// conflicts that it has with the exports of other clusters, and whose values
// count. It changes nothing.
func (p *Projection) Preview(written *multiclusterxv1beta1.ServiceExport) []string {
	identity := p.members.Identity()
	if identity.ID == "" || identity.ClusterSet == "" {
		return nil
	}
	service, err := p.local.Service(written.Namespace, written.Name)
	if err != nil || export.Check(written.Namespace, written.Name, service) != nil {
		return nil // warned of elsewhere
	}
	exports := []merge.Export{mergeable(export.Service(identity.ID, written, service))}
	var clusters []string
	for _, other := range p.members.Exports(types.NamespacedName{Namespace: written.Namespace, Name: written.Name}) {
		exports = append(exports, mergeable(other.Service))
		clusters = append(clusters, describeCluster(other.Service.Spec.Cluster, other.State))
	}
	var warnings []string
	for _, conflict := range merge.Merge(exports).Conflicts {
		warnings = append(warnings, fmt.Sprintf("%s with the exports of %s: %s", conflict.Reason, strings.Join(clusters, ", "), conflict.Message))
	}
	return warnings
}

func describeCluster(id string, state clusterset.MemberState) string {
	if state == clusterset.MemberConnected {
		return id
	}
	return fmt.Sprintf("%s (%s)", id, strings.ToLower(string(state)))
}
