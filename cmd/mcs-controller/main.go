// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Command mcs-controller runs the controllers of mcs-apiserver.
package main

import (
	"os"

	"k8s.io/component-base/cli"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/mcs-controller/app"
)

func main() {
	os.Exit(cli.Run(app.NewCommand()))
}
