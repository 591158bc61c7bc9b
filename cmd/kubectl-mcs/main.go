// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubectl-mcs is a plugin: with it on the PATH there is `kubectl mcs`.
package main

import (
	"os"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app"
)

func main() {
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	os.Exit(app.Main(streams, os.Args[1:]))
}
