// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"strings"
	"testing"
	"time"
)

func TestOptionsAreValidated(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*Options)
		want   string
	}{
		{"defaults", func(*Options) {}, ""},
		{"no certificate", func(o *Options) { o.ServingCertDir = "" }, "--serving-cert-dir"},
		{"two certificates", func(o *Options) { o.ServingCAFile = "ca.crt" }, "--serving-cert-dir"},
		{"no TLS", func(o *Options) { o.APIServer = "http://127.0.0.1:6443" }, "--apiserver"},
		{"cluster ID", func(o *Options) { o.ClusterID = "a.b" }, "--cluster-id"},
		{"namespace", func(o *Options) { o.Namespace = "A" }, "--namespace"},
		{"storage namespace", func(o *Options) { o.StorageNamespace = "A" }, "--storage-namespace"},
		{"storage in a namespace of the cluster", func(o *Options) { o.StorageNamespace = "kube-system" }, "used for nothing else"},
		{"no storage namespace", func(o *Options) { o.StorageNamespace = "" }, ""},
		{"storage in the namespace of the installation", func(o *Options) { o.StorageNamespace = o.Namespace }, "uninstalled"},
		{"preference", func(o *Options) { o.PreferenceBy = "labels" }, "must be one of auto hints detach"},
		{"timing", func(o *Options) { o.LeaderElection.LeaseDuration.Duration = 2 * time.Second }, "--leader-elect-lease-duration"},
		{"timing without election", func(o *Options) {
			o.LeaderElection.LeaseDuration.Duration = 2 * time.Second
			o.LeaderElection.LeaderElect = false
		}, ""},
	} {
		options := NewOptions()
		options.ServingCertDir = "/run/mcs-apiserver"
		test.change(options)
		err := options.Validate()
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", test.name, err, test.want)
		}
	}
}
