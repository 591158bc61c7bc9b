// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"fmt"

	"github.com/spf13/pflag"
	genericoptions "k8s.io/apiserver/pkg/server/options"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/etcd"
)

const (
	defaultDataDir = "/var/lib/mcs-apiserver"
	// defaultEtcdPrefix separates our keys from others in a shared etcd.
	defaultEtcdPrefix = "/registry/mcs-apiserver"
)

// StorageOptions configures the embedded etcd.
type StorageOptions struct {
	DataDir string
	// Accept opens storage that is lost or belongs to another cluster.
	Accept bool
	// Embedded is set on completion if --etcd-servers is not set.
	Embedded bool
}

// AddFlags adds the flags of this group.
func (o *StorageOptions) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.DataDir, "data-dir", o.DataDir,
		"Data directory of the embedded etcd, which is used if --etcd-servers is not set. The embedded etcd serves "+
			"this process only, so only one replica is possible. Ignored if --etcd-servers is set.")
	flags.BoolVar(&o.Accept, "accept-storage", o.Accept,
		"Accept the present content of the storage, even if objects were lost or if it belongs to another cluster. Otherwise "+
			"mcs-apiserver does not become ready with such storage. Remove the flag when mcs-apiserver is ready.")
}

func (o *StorageOptions) complete(options *genericoptions.EtcdOptions) {
	transport := &options.StorageConfig.Transport
	if o.Embedded = len(transport.ServerList) == 0; o.Embedded {
		transport.ServerList = []string{etcd.EmbeddedEndpoint(o.DataDir)}
	}
}

func (o *StorageOptions) validate() []error {
	if !o.Embedded {
		return nil
	}
	if err := etcd.ValidateDataDir(o.DataDir); err != nil {
		return []error{fmt.Errorf("--data-dir: %w", err)}
	}
	return nil
}
