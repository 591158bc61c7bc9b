// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apiserver"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
)

// The values of --clusterset-ip-mode.
const (
	modeCluster    = "Cluster"
	modeClusterSet = "ClusterSet"
)

// ClusterSetIPOptions are about one IP in all clusters.
type ClusterSetIPOptions struct {
	Mode   string
	Ranges []string
	CIDRs  []string
}

func newClusterSetIPOptions() *ClusterSetIPOptions {
	return &ClusterSetIPOptions{Mode: modeCluster, Ranges: []string{"243.0.0.0/8"}}
}

// AddFlags adds the flags of this group.
func (o *ClusterSetIPOptions) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Mode, "clusterset-ip-mode", o.Mode,
		"Which IP the services have that this cluster is the first to export: Cluster for one in each importing cluster, "+
			"ClusterSet for the same in all. The annotation "+multicluster.UseClusterSetIPAnnotation+" on a ServiceExport overrides it.")
	flags.StringSliceVar(&o.Ranges, "clusterset-ip-range", o.Ranges,
		"Networks of the addresses that are the same in all clusters: one for IPv4, one for IPv6, or both. "+
			"The same in all clusters, and used for nothing else.")
	flags.StringSliceVar(&o.CIDRs, "clusterset-ip-cidr", o.CIDRs,
		"The part of --clusterset-ip-range that this cluster allocates, and no other. "+
			"Without it, the ClusterClaim "+multicluster.ClusterSetIPCIDRClaim+", which `kubectl mcs join` makes.")
}

func (o *ClusterSetIPOptions) validate() []error {
	var errs []error
	if o.Mode != modeCluster && o.Mode != modeClusterSet {
		errs = append(errs, fmt.Errorf("--clusterset-ip-mode %q: must be %s or %s", o.Mode, modeCluster, modeClusterSet))
	}
	ranges, err := clustersetip.ParseCIDRs(o.Ranges)
	if err != nil {
		errs = append(errs, fmt.Errorf("--clusterset-ip-range: %w", err))
	}
	cidrs, err := clustersetip.ParseCIDRs(o.CIDRs)
	if err != nil {
		errs = append(errs, fmt.Errorf("--clusterset-ip-cidr: %w", err))
	}
	if outside := clustersetip.Outside(cidrs, ranges); len(errs) == 0 && len(outside) > 0 {
		errs = append(errs, fmt.Errorf("--clusterset-ip-cidr: %v must lie in --clusterset-ip-range, %v", outside, ranges))
	}
	return errs
}

func (o *ClusterSetIPOptions) config() (apiserver.ClusterSetIPConfig, error) {
	ranges, err := clustersetip.ParseCIDRs(o.Ranges)
	return apiserver.ClusterSetIPConfig{ByDefault: o.Mode == modeClusterSet, Ranges: ranges, CIDRs: o.CIDRs}, err
}
