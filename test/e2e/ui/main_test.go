// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ui tests the page of kubectl mcs ui in Chromium, with real control planes: what it shows is
// compared with what the API says, while things change.
package ui

import (
	"flag"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/controlplane"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
)

// screenshots is where TestScreenshots writes those of the documentation, relative to the root of the
// repository.
var screenshots = flag.String("screenshots", "", "directory for screenshots, relative to the root of the repository; none are written without it")

var clusters *fleet.Fleet

func TestMain(m *testing.M) {
	fleet.Main(m, &clusters, fleet.Config{
		Names: []string{"east", "north", "west"}, ClusterSet: "production",
		Configure: func(_ string, _ *controlplane.Config, installed *installation.Config) {
			installed.APIServerFlags = []string{"--member-ttl=30s"} // the minimum, to keep the tests short
		},
	})
}

func east() *fleet.Cluster  { return clusters.Cluster("east") }
func west() *fleet.Cluster  { return clusters.Cluster("west") }
func north() *fleet.Cluster { return clusters.Cluster("north") }
