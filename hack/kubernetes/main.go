// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kube contains all Kubernetes programs that the tests need.
//
// The name under which the binary is invoked selects the program:
// bin/kubernetes/kube-apiserver and the other programs are symbolic links to the
// binary. Linking one binary instead of five saves minutes on a small machine.
// CoreDNS requires newer Kubernetes libraries and is a separate module in
// hack/kubernetes/coredns.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // build information
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
)

// programs maps the names under which the binary can be invoked to its programs.
var programs = map[string]func(){
	"etcd":                    func() { etcdmain.Main(os.Args) },
	"kube-apiserver":          component(apiserver.NewAPIServerCommand),
	"kube-controller-manager": component(controllermanager.NewControllerManagerCommand),
	"kube-proxy":              component(proxy.NewProxyCommand),
	"kubectl": func() {
		if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
			kubectlutil.CheckErr(err)
		}
	},
}

func component(command func() *cobra.Command) func() {
	return func() { os.Exit(cli.Run(command())) }
}

func main() {
	name := filepath.Base(os.Args[0])
	program, ok := programs[name]
	if !ok {
		names := make([]string, 0, len(programs))
		for name := range programs {
			names = append(names, name)
		}
		slices.Sort(names)
		fmt.Fprintf(os.Stderr, "%s: invoke this binary under one of the names %s\n", name, strings.Join(names, ", "))
		os.Exit(2)
	}
	program()
}
