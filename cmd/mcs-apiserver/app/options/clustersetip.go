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

// ClusterSetIPOptions configures shared ClusterSet IPs.
type ClusterSetIPOptions struct {
	Mode   string
	Ranges []string
	CIDRs  []string
}

func newClusterSetIPOptions() *ClusterSetIPOptions {
	return &ClusterSetIPOptions{Mode: modeCluster, Ranges: []string{"243.0.0.0/8"}}
}

// minRangeBits is the shortest prefix of a range. No Service may have an address of a range but
// as a shared ClusterSet IP: a typo such as 0.0.0.0/0 would deny all load balancers theirs.
const minRangeBits = 8

// AddFlags adds the flags of this group.
func (o *ClusterSetIPOptions) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Mode, "clusterset-ip-mode", o.Mode,
		"IP of Services whose founding export is in this cluster: Cluster for a separate IP in each importing cluster, "+
			"ClusterSet for a shared ClusterSet IP. The annotation "+multicluster.UseClusterSetIPAnnotation+" on a ServiceExport takes precedence.")
	flags.StringSliceVar(&o.Ranges, "clusterset-ip-range", o.Ranges,
		"ClusterSet IP range from which shared ClusterSet IPs are allocated: an IPv4 CIDR, an IPv6 CIDR, or both, with prefixes of 8 bits or more. "+
			"Must be the same in all clusters and must not be used for anything else.")
	flags.StringSliceVar(&o.CIDRs, "clusterset-ip-cidr", o.CIDRs,
		"Allocation CIDRs of this cluster, within --clusterset-ip-range. Only this cluster allocates from them. "+
			"Defaults to the ClusterClaim "+multicluster.ClusterSetIPCIDRClaim+", which 'kubectl mcs join' creates.")
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
	for _, r := range ranges {
		if r.Bits() < minRangeBits {
			errs = append(errs, fmt.Errorf("--clusterset-ip-range: %s has a prefix of less than %d bits: the range is used for nothing else, so that it cannot be that large", r, minRangeBits))
		}
	}
	cidrs, err := clustersetip.ParseCIDRs(o.CIDRs)
	if err != nil {
		errs = append(errs, fmt.Errorf("--clusterset-ip-cidr: %w", err))
	}
	if outside := clustersetip.Outside(cidrs, ranges); len(errs) == 0 && len(outside) > 0 {
		errs = append(errs, fmt.Errorf("--clusterset-ip-cidr: %v must be within --clusterset-ip-range %v", outside, ranges))
	}
	return errs
}

func (o *ClusterSetIPOptions) config() (apiserver.ClusterSetIPConfig, error) {
	ranges, err := clustersetip.ParseCIDRs(o.Ranges)
	return apiserver.ClusterSetIPConfig{ByDefault: o.Mode == modeClusterSet, Ranges: ranges, CIDRs: o.CIDRs}, err
}
