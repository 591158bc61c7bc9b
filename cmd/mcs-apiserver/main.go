// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Command mcs-apiserver serves the Multi-Cluster Services API as an extension
// of a cluster's Kubernetes API.
package main

import (
	"os"

	"k8s.io/component-base/cli"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/mcs-apiserver/app"
)

func main() {
	os.Exit(cli.Run(app.NewCommand()))
}
