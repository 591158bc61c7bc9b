// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

import "slices"

// AddOutsider connects a node to the networks of clusters that belongs to none of them. All
// addresses of the given CIDRs are its own.
func (f *Fabric) AddOutsider(name string, networks []*Network, cidrs []string) (*Node, error) {
	network := f.Network(name, MaxClusters-1, 1, "")
	outsider := network.ControlPlane()
	if err := f.Build(append(slices.Clone(networks), network)); err != nil {
		return nil, err
	}
	for _, cidr := range cidrs {
		if err := outsider.Own(cidr); err != nil {
			return nil, err
		}
		for _, other := range networks {
			for _, node := range other.Nodes {
				if err := node.run("ip", "route", "replace", cidr, "via", outsider.IPs()[0]); err != nil {
					return nil, err
				}
			}
		}
	}
	return outsider, nil
}
