// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/export"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/merge"
)

// Preview returns warnings for the writer of an export: its conflicts with the
// exports of other clusters, and whose values take precedence. It changes
// nothing.
func (p *Projection) Preview(written *multiclusterxv1beta1.ServiceExport) []string {
	identity := p.members.Identity()
	if identity.ID == "" || identity.ClusterSet == "" {
		return nil
	}
	service, err := p.local.Service(written.Namespace, written.Name)
	if err != nil || export.Check(written.Namespace, written.Name, service) != nil {
		return nil // the strategy warns about these
	}
	local, err := p.localState(types.NamespacedName{Namespace: written.Namespace, Name: written.Name})
	if err != nil {
		return nil // warnings are best effort
	}
	own := export.Service(p.config.origin(identity), written, service)
	exports := []merge.Export{merge.FromExported(own)}
	var clusters []string
	for _, other := range p.members.Exports(types.NamespacedName{Namespace: written.Namespace, Name: written.Name}) {
		exports = append(exports, merge.FromExported(other.Service))
		clusters = append(clusters, describeCluster(other.Service.Spec.Cluster, other.State))
	}
	var warnings []string
	for _, conflict := range merge.MergeIn(local.ip, exports).Conflicts {
		if len(clusters) == 0 { // the export conflicts with its own recorded decision
			warnings = append(warnings, fmt.Sprintf("%s: %s", conflict.Reason, conflict.Message))
			continue
		}
		warnings = append(warnings, fmt.Sprintf("%s with the exports of %s: %s", conflict.Reason, strings.Join(clusters, ", "), conflict.Message))
	}
	return append(warnings, warnLongNames(p.local, own)...)
}

// warnLongNames warns about Pods that get no DNS name of their own in the
// ClusterSet, because the name would be longer than DNS allows.
func warnLongNames(local export.Local, own *clusterset.ExportedService) []string {
	if own.Spec.Type != clusterset.Headless {
		return nil
	}
	slices, err := local.EndpointSlices(own.Namespace, own.Spec.Service)
	if err != nil {
		return nil // warnings are best effort
	}
	domain := fmt.Sprintf(".%s.%s.%s.svc.clusterset.local", own.Spec.Cluster, own.Spec.Service, own.Namespace)
	for _, slice := range slices {
		for _, endpoint := range slice.Endpoints {
			if name := ptr.Deref(endpoint.Hostname, "") + domain; len(name) > validation.DNS1123SubdomainMaxLength {
				return []string{fmt.Sprintf("some Pods of the Service get no DNS name in the ClusterSet, because the name would be longer than %d characters: %s",
					validation.DNS1123SubdomainMaxLength, name)}
			}
		}
	}
	return nil
}

// describeCluster returns the ID of a cluster, and its state unless it is connected.
func describeCluster(id string, state clusterset.MemberState) string {
	if state == clusterset.MemberConnected {
		return id
	}
	return fmt.Sprintf("%s (%s)", id, strings.ToLower(string(state)))
}
