// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package installation

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/etcd"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/configmap"
)

const (
	// StorageNamespace is the namespace of the stored objects.
	StorageNamespace = "mcs-storage"

	storageVariable = "STORAGE"
	etcdPrefix      = "/registry/mcs-apiserver/"
)

// EmbeddedStorage returns the storage flags for an embedded etcd in DataDir.
func (c Config) EmbeddedStorage() []string {
	return []string{"--storage=embedded", "--data-dir=" + c.DataDir()}
}

// storage returns cluster, etcd or embedded. Several replicas cannot share an embedded etcd.
func (i *Installation) storage() string {
	storage := os.Getenv(storageVariable)
	if storage == "embedded" && len(i.APIServers) > 1 {
		return "etcd"
	}
	return storage
}

func (i *Installation) storageFlags() ([]string, error) {
	if i.StorageFlags != nil {
		return i.StorageFlags, nil
	}
	switch storage := i.storage(); storage {
	case "", "cluster":
		return nil, nil // the default
	case "etcd":
		return []string{"--storage=etcd", "--etcd-servers=" + i.Plane.EtcdURL()}, nil
	case "embedded":
		return i.EmbeddedStorage(), nil
	default:
		return nil, fmt.Errorf("environment variable %s is %q: must be cluster, etcd or embedded", storageVariable, storage)
	}
}

// Stored returns what the storage that the environment selects holds, by keys such as
// multicluster.k8s.io/clusterclaims/id.k8s.io.
func (i *Installation) Stored(ctx context.Context) (map[string][]byte, error) {
	stored := map[string][]byte{}
	client, err := i.etcd()
	if err != nil {
		return nil, err
	}
	if client != nil {
		defer client.Close()
		found, err := client.Get(ctx, etcdPrefix, clientv3.WithPrefix())
		if err != nil {
			return nil, err
		}
		for _, pair := range found.Kvs {
			stored[strings.TrimPrefix(string(pair.Key), etcdPrefix)] = pair.Value
		}
		return stored, nil
	}
	found, err := i.Kubernetes.CoreV1().ConfigMaps(StorageNamespace).List(ctx, metav1.ListOptions{LabelSelector: configmap.ResourceLabel})
	if err != nil {
		return nil, err
	}
	for _, wrapper := range found.Items {
		stored[strings.TrimPrefix(wrapper.Data["key"], "/")] = []byte(wrapper.Data["object"])
	}
	return stored, nil
}

// Forget removes what is stored with a key, as restoring an old backup would.
func (i *Installation) Forget(ctx context.Context, key string) error {
	client, err := i.etcd()
	if err != nil {
		return err
	}
	if client != nil {
		defer client.Close()
		_, err = client.Delete(ctx, etcdPrefix+key)
		return err
	}
	configMaps := i.Kubernetes.CoreV1().ConfigMaps(StorageNamespace)
	found, err := configMaps.List(ctx, metav1.ListOptions{LabelSelector: configmap.ResourceLabel})
	if err != nil {
		return err
	}
	for _, wrapper := range found.Items {
		if strings.TrimPrefix(wrapper.Data["key"], "/") == key {
			return i.allowingWrites(ctx, func() error { return configMaps.Delete(ctx, wrapper.Name, metav1.DeleteOptions{}) })
		}
	}
	return fmt.Errorf("nothing is stored with key %s", key)
}

// Purge removes everything that is stored, whatever the storage was. Nothing must be running.
func (i *Installation) Purge(ctx context.Context) error {
	if err := os.RemoveAll(i.DataDir()); err != nil {
		return err
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{i.Plane.EtcdURL()}, DialTimeout: 10 * time.Second})
	if err != nil {
		return err
	}
	defer client.Close()
	if _, err := client.Delete(ctx, etcdPrefix, clientv3.WithPrefix()); err != nil {
		return err
	}
	return i.Kubernetes.CoreV1().ConfigMaps(StorageNamespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
}

// etcd returns a client of the etcd that stores objects, or nil if it is the cluster.
func (i *Installation) etcd() (*clientv3.Client, error) {
	var endpoint string
	switch i.storage() {
	case "etcd":
		endpoint = i.Plane.EtcdURL()
	case "embedded":
		endpoint = etcd.EmbeddedEndpoint(i.DataDir())
	default:
		return nil, nil
	}
	return clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: 10 * time.Second})
}

// allowingWrites suspends the protection of stored objects until write succeeds: the
// admission policy observes that with a delay.
func (i *Installation) allowingWrites(ctx context.Context, write func() error) error {
	allow := func(value string) error {
		patch := fmt.Appendf(nil, `{"metadata": {"annotations": {"storage.mcs-apiserver.io/allow-writes": %s}}}`, value)
		_, err := i.Kubernetes.CoreV1().Namespaces().Patch(ctx, StorageNamespace, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	}
	if err := allow(`"true"`); err != nil {
		return err
	}
	if err := i.APIServers[0].Await(ctx, patience, func(context.Context) error { return write() }); err != nil {
		return err
	}
	return allow("null")
}
