// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/validation"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
)

// Join plans how every cluster becomes a member of every other. ids are those
// that clusters are to have, by their contexts; the others keep theirs. What is
// as it should be already is left out. The error has everything that is wrong.
func Join(clusterSet string, clusters []Cluster, ids map[string]string) (Plan, error) {
	clusters = slices.Clone(clusters)
	plan := Plan{Steps: []Step{}} // "nothing" is an empty list
	var errs []error
	for i := range clusters {
		c := &clusters[i]
		id := cmp.Or(ids[c.Context], c.ID)
		errs = append(errs, checkJoining(clusterSet, *c, id))
		if id != c.ID {
			plan.Steps = append(plan.Steps, Step{Context: c.Context, Action: SetID, Value: id})
		}
		c.ID = id
	}
	errs = append(errs, checkAmong(clusters, clusterSet))
	if err := errors.Join(errs...); err != nil {
		return Plan{}, err
	}
	for _, c := range clusters {
		plan.add(c, Admit, clusters, func(peer Cluster) bool { return !c.Admitted[peer.ID] })
	}
	for _, c := range clusters {
		plan.add(c, AddMembers, clusters, func(peer Cluster) bool {
			member, ok := c.Members[peer.ID]
			return !ok || member.Refuses || member.Access != peer.Access
		})
	}
	steps, warnings, err := assign(clusters)
	if err != nil {
		return Plan{}, err
	}
	plan.Steps = append(plan.Steps, steps...)
	for _, c := range clusters {
		if c.ClusterSet == "" {
			plan.Steps = append(plan.Steps, Step{Context: c.Context, Action: Claim, Value: clusterSet})
		}
	}
	if len(plan.Steps) > 0 {
		for _, c := range clusters {
			plan.add(c, Await, clusters, func(Cluster) bool { return true })
		}
	}
	plan.Warnings = slices.Concat(unnamed(clusters), overlapping(clusters), warnings)
	return plan, nil
}

// add adds a step about the peers that need it.
func (p *Plan) add(c Cluster, action Action, clusters []Cluster, needed func(peer Cluster) bool) {
	step := Step{Context: c.Context, Action: action}
	for _, peer := range clusters {
		if peer.Context != c.Context && needed(peer) {
			step.Peers = append(step.Peers, peer.ID)
		}
	}
	if len(step.Peers) > 0 {
		p.Steps = append(p.Steps, step)
	}
}

// checkJoining checks a cluster by itself.
func checkJoining(clusterSet string, c Cluster, id string) error {
	var errs []error
	switch {
	case id == "":
		errs = append(errs, fmt.Errorf("context %s: the cluster has no id: give it one with --id %s=ID", c.Context, c.Context))
	case len(validation.ValidateClusterID(id, nil)) > 0:
		errs = append(errs, fmt.Errorf("context %s: %w", c.Context, validation.ValidateClusterID(id, field.NewPath("id")).ToAggregate()))
	}
	if c.ClusterSet != "" && c.ClusterSet != clusterSet {
		errs = append(errs, fmt.Errorf("context %s: the cluster is in the ClusterSet %q: let it leave that first, with `kubectl mcs leave %s`", c.Context, c.ClusterSet, c.Context))
	}
	if c.ClusterSet != "" && id != c.ID {
		errs = append(errs, fmt.Errorf("context %s: the cluster is in a ClusterSet as %q, and can become %q only after it has left, with `kubectl mcs leave %s`", c.Context, c.ID, id, c.Context))
	}
	return errors.Join(append(errs, checkAccess(c))...)
}

// checkAccess finds what would keep other clusters from reaching this one.
func checkAccess(c Cluster) error {
	var errs []error
	server, err := url.Parse(c.Access.Server)
	switch {
	case err != nil || server.Scheme != "https" || server.Host == "":
		errs = append(errs, fmt.Errorf("context %s: its server %q is no https URL: say where other clusters reach it with --server %s=URL", c.Context, c.Access.Server, c.Context))
	case isLocal(server.Hostname()):
		errs = append(errs, fmt.Errorf("context %s: its server %s is on your machine: say where other clusters reach it with --server %s=URL", c.Context, c.Access.Server, c.Context))
	}
	if c.Unverified {
		errs = append(errs, fmt.Errorf("context %s: its server's certificate is not verified, so that anybody could pose as it: replace insecure-skip-tls-verify in the kubeconfig by certificate-authority-data", c.Context))
	}
	return errors.Join(errs...)
}

// isLocal is true of hosts that are another machine for everybody else.
func isLocal(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && (address.IsLoopback() || address.IsUnspecified())
}

// checkAmong compares the clusters with each other, and with those that they
// know already.
func checkAmong(clusters []Cluster, clusterSet string) error {
	var errs []error
	byUID, byID := map[types.UID]Cluster{}, map[string]Cluster{}
	for _, c := range clusters {
		if other, ok := byUID[c.UID]; ok {
			errs = append(errs, fmt.Errorf("contexts %s and %s lead to the same cluster: name it once", other.Context, c.Context))
			continue
		}
		byUID[c.UID] = c
		if other, ok := byID[c.ID]; ok && c.ID != "" {
			errs = append(errs, fmt.Errorf("contexts %s and %s: both clusters have the id %q: %s", other.Context, c.Context, c.ID, rename(other, c)))
		}
		byID[c.ID] = c
	}
	for _, c := range clusters {
		for _, teller := range clusters {
			if teller.ClusterSet != clusterSet {
				continue // whom it knows is not in the ClusterSet
			}
			if uid := teller.Known[c.ID]; uid != "" && uid != c.UID && teller.UID != c.UID {
				errs = append(errs, fmt.Errorf("context %s: the id %q is taken in the ClusterSet %q by a member of %s (UID %s): %s",
					c.Context, c.ID, clusterSet, teller.Context, uid, rename(c)))
				break // others may know it too
			}
		}
	}
	return errors.Join(errs...)
}

// rename says how to give one of the clusters another id.
func rename(clusters ...Cluster) string {
	var ways []string
	for _, c := range clusters {
		if c.ClusterSet == "" {
			ways = append(ways, fmt.Sprintf("--id %s=ANOTHER", c.Context))
		}
	}
	if len(ways) == 0 {
		return fmt.Sprintf("let one of them leave (kubectl mcs leave %s), and join again with --id %s=ANOTHER", clusters[0].Context, clusters[0].Context)
	}
	return "choose another with " + strings.Join(ways, " or ")
}

// unnamed warns of members that the others will not know.
func unnamed(clusters []Cluster) []string {
	named := sets.New[string]()
	for _, c := range clusters {
		named.Insert(c.ID)
	}
	missing := map[string][]string{}
	for _, c := range clusters {
		for id := range c.Known {
			if !named.Has(id) {
				missing[id] = append(missing[id], c.Context)
			}
		}
	}
	var warnings []string
	for _, id := range slices.Sorted(maps.Keys(missing)) {
		warnings = append(warnings, fmt.Sprintf("%q is a member of %s and is not named: name all clusters of the ClusterSet, unless a hub speaks for it",
			id, strings.Join(missing[id], ", ")))
	}
	return warnings
}

// overlapping warns of Pod networks that overlap. It is no error, because not
// every network goes by what nodes say.
func overlapping(clusters []Cluster) []string {
	var warnings []string
	for i, c := range clusters {
		own, err := clustersetip.ParseCIDRs(c.PodCIDRs)
		if err != nil {
			continue
		}
		for _, other := range clusters[:i] {
			theirs, err := clustersetip.ParseCIDRs(other.PodCIDRs)
			if err != nil {
				continue
			}
			if a, b, found := clustersetip.Overlap(theirs, own); found {
				warnings = append(warnings, fmt.Sprintf("the Pod networks of %s (%s) and %s (%s) overlap: unless that is not what their Pods use, "+
					"traffic will end up in the wrong cluster, since no addresses are translated", other.Context, a, c.Context, b))
			}
		}
	}
	return warnings
}
