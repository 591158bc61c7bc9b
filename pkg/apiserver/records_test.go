// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"testing"

	genericapiserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/etcdtest"
)

var etcd *clientv3.Client

func TestMain(m *testing.M) { etcdtest.Main(m, &etcd) }

// A server that used another key would lose what its predecessor stored.
func TestRecordsAreStoredUnderAFixedKey(t *testing.T) {
	options := genericoptions.NewEtcdOptions(storagebackend.NewDefaultConfig("/registry/test", nil))
	options.StorageConfig.Transport.ServerList = etcd.Endpoints()
	options.SkipHealthEndpoints, options.EnableWatchCache = true, false
	config := genericapiserver.NewConfig(Codecs)
	if err := options.ApplyTo(config); err != nil {
		t.Fatal(err)
	}
	records := &records{options: config.RESTOptionsGetter}
	defer records.close()
	lives, err := records.open("lives")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := lives.Update(t.Context(), "shop", func([]byte) ([]byte, error) { return []byte("1"), nil }); err != nil {
		t.Fatal(err)
	}
	response, err := etcd.Get(t.Context(), "/registry/test/storage.mcs-apiserver.io/lives/shop")
	if err != nil || response.Count != 1 {
		t.Errorf("got %v, %v", response, err)
	}
}
