// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apiserver/pkg/storage/storagebackend"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// dialTimeout is the same as in k8s.io/apiserver.
	dialTimeout = 20 * time.Second
	// A server that stops responding is given up, and another one is used. etcd
	// accepts checks of a connection every 5 seconds, and none of an idle one.
	keepaliveTime    = 10 * time.Second
	keepaliveTimeout = 5 * time.Second
)

// Connect returns a client. It outlives the context; the caller must close it.
// Calls have no time limit of their own.
func Connect(ctx context.Context, config storagebackend.TransportConfig) (*clientv3.Client, error) {
	tlsInfo := transport.TLSInfo{CertFile: config.CertFile, KeyFile: config.KeyFile, TrustedCAFile: config.TrustedCAFile}
	options := clientv3.Config{
		Context: context.WithoutCancel(ctx), Endpoints: config.ServerList,
		DialTimeout: dialTimeout, DialKeepAliveTime: keepaliveTime, DialKeepAliveTimeout: keepaliveTimeout,
	}
	if !tlsInfo.Empty() || config.TrustedCAFile != "" {
		tlsConfig, err := tlsInfo.ClientConfig()
		if err != nil {
			return nil, fmt.Errorf("load TLS files for etcd (--etcd-cafile, --etcd-certfile, --etcd-keyfile): %w", err)
		}
		options.TLS = tlsConfig
	}
	client, err := clientv3.New(options)
	if err != nil {
		return nil, fmt.Errorf("connect to etcd at %v: %w", config.ServerList, err)
	}
	return client, nil
}
