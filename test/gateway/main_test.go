// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gateway tests ServiceImports as backends of Gateways with the control plane of Envoy
// Gateway, which is built from source. Its proxies are replaced by a client that receives their
// configuration.
package gateway

import (
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
)

// clusters are joined by TestMain. Envoy Gateway runs in west.
var clusters *fleet.Fleet

func TestMain(m *testing.M) {
	fleet.Main(m, &clusters, fleet.Config{Names: []string{"east", "west"}, ClusterSet: "everywhere"})
}

func east() *fleet.Cluster { return clusters.Cluster("east") }
func west() *fleet.Cluster { return clusters.Cluster("west") }
