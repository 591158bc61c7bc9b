// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package marker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// errConflict is returned by a Place whose marker is not the expected one.
var errConflict = errors.New("storage marker was changed by another replica")

// Place is where a marker is kept.
type Place interface {
	// Get returns nil if the marker does not exist.
	Get(ctx context.Context) (*Marker, error)
	// Put replaces the marker that Get returned.
	Put(ctx context.Context, existing *Marker, marker Marker) error
}

var (
	_ Place = ConfigMap{}
	_ Place = Etcd{}
)

const markerData = "marker"

// ConfigMap keeps a marker in a ConfigMap.
type ConfigMap struct {
	Client          kubernetes.Interface
	Namespace, Name string
}

// Get implements Place.
func (c ConfigMap) Get(ctx context.Context) (*Marker, error) {
	held, err := c.Client.CoreV1().ConfigMaps(c.Namespace).Get(ctx, c.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // the contract of Place
	}
	if err != nil {
		return nil, err
	}
	return FromConfigMap(held)
}

// FromConfigMap returns the marker that a ConfigMap holds.
func FromConfigMap(held *corev1.ConfigMap) (*Marker, error) {
	return decode(fmt.Sprintf("ConfigMap %s/%s", held.Namespace, held.Name), []byte(held.Data[markerData]))
}

// Put implements Place.
func (c ConfigMap) Put(ctx context.Context, existing *Marker, marker Marker) error {
	data, err := json.Marshal(marker)
	if err != nil {
		return err
	}
	client := c.Client.CoreV1().ConfigMaps(c.Namespace)
	if existing == nil {
		_, err = client.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: c.Name}, Data: map[string]string{markerData: string(data)},
		}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return errConflict
		}
		return err
	}
	held, err := client.Get(ctx, c.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if now, err := FromConfigMap(held); err != nil || *now != *existing {
		return errors.Join(errConflict, err)
	}
	held.Data = map[string]string{markerData: string(data)}
	_, err = client.Update(ctx, held, metav1.UpdateOptions{})
	return err
}

// Etcd keeps a marker under a key of an etcd.
type Etcd struct {
	Client *clientv3.Client
	Key    string
}

// Get implements Place.
func (e Etcd) Get(ctx context.Context) (*Marker, error) {
	response, err := e.Client.Get(ctx, e.Key)
	if err != nil || len(response.Kvs) == 0 {
		return nil, err
	}
	return decode("etcd key "+e.Key, response.Kvs[0].Value)
}

// Put implements Place.
func (e Etcd) Put(ctx context.Context, existing *Marker, marker Marker) error {
	data, err := json.Marshal(marker)
	if err != nil {
		return err
	}
	expected := clientv3.Compare(clientv3.CreateRevision(e.Key), "=", 0)
	if existing != nil {
		before, err := json.Marshal(existing)
		if err != nil {
			return err
		}
		expected = clientv3.Compare(clientv3.Value(e.Key), "=", string(before))
	}
	response, err := e.Client.Txn(ctx).If(expected).Then(clientv3.OpPut(e.Key, string(data))).Commit()
	if err != nil {
		return err
	}
	if !response.Succeeded {
		return errConflict
	}
	return nil
}

// decode returns an error for an invalid marker, which is not an absent one.
func decode(place string, data []byte) (*Marker, error) {
	marker := &Marker{}
	if err := json.Unmarshal(data, marker); err != nil {
		return nil, fmt.Errorf("%s has an invalid storage marker: %w", place, err)
	}
	if marker.StorageID == "" || marker.ClusterUID == "" {
		return nil, fmt.Errorf("%s has an invalid storage marker: storageID and clusterUID are required", place)
	}
	return marker, nil
}
