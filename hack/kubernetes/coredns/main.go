// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Command coredns is CoreDNS with the plugins that cluster DNS needs.
//
// CoreDNS plugins are selected at compile time. The multicluster behavior under
// test is part of the stock kubernetes plugin.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/log"
	_ "github.com/coredns/coredns/plugin/loop"
	_ "github.com/coredns/coredns/plugin/metrics"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/reload"
)

// The directives are in the order in which CoreDNS executes them.
func init() {
	dnsserver.Directives = []string{
		"reload", "bind", "ready", "health", "prometheus", "errors", "log", "loadbalance", "cache", "kubernetes", "loop", "forward",
	}
}

func main() { coremain.Run() }
