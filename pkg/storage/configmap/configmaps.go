// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package configmap

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// requestTimeout limits requests to the host other than watches. It is shorter
// than the request timeout of this server, so that clients receive a response.
const requestTimeout = 10 * time.Second

// ClientConfig returns the client configuration for watches of the host: protobuf, no
// client-side rate limit, and no compression, which costs more CPU than it saves on a
// short path.
func ClientConfig(host *rest.Config) *rest.Config {
	config := rest.CopyConfig(host)
	config.QPS = -1
	config.DisableCompression = true
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return config
}

// requestConfig returns the client configuration for all other requests. They use
// HTTP/1.1: a small request costs the client and the host half the CPU time that it costs
// with HTTP/2, and there is no need to share a connection among hundreds of them.
func requestConfig(host *rest.Config) *rest.Config {
	config := ClientConfig(host)
	config.NextProtos = []string{"http/1.1"}
	return config
}

// configMaps reads and writes the ConfigMaps of one namespace. The client does
// not retry: it would retry "Too large resource version" for 40 seconds.
type configMaps struct {
	client, watches rest.Interface
	namespace       string
}

func (c configMaps) request(r *rest.Request) *rest.Request {
	return r.Namespace(c.namespace).Resource("configmaps").MaxRetries(0)
}

func (c configMaps) get(ctx context.Context, name, resourceVersion string) (*corev1.ConfigMap, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	wrapper := &corev1.ConfigMap{}
	return wrapper, c.request(c.client.Get()).Name(name).
		VersionedParams(&metav1.GetOptions{ResourceVersion: resourceVersion}, scheme.ParameterCodec).Do(ctx).Into(wrapper)
}

func (c configMaps) list(ctx context.Context, options metav1.ListOptions) (*corev1.ConfigMapList, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	list := &corev1.ConfigMapList{}
	return list, c.request(c.client.Get()).VersionedParams(&options, scheme.ParameterCodec).Do(ctx).Into(list)
}

func (c configMaps) create(ctx context.Context, wrapper *corev1.ConfigMap) (*corev1.ConfigMap, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	created := &corev1.ConfigMap{}
	return created, uncertain(c.request(c.client.Post()).Body(wrapper).Do(ctx).Into(created))
}

func (c configMaps) update(ctx context.Context, wrapper *corev1.ConfigMap) (*corev1.ConfigMap, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	updated := &corev1.ConfigMap{}
	return updated, uncertain(c.request(c.client.Put()).Name(wrapper.Name).Body(wrapper).Do(ctx).Into(updated))
}

// delete deletes a wrapper unless it changed since it was read.
func (c configMaps) delete(ctx context.Context, wrapper *corev1.ConfigMap) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	options := &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &wrapper.UID, ResourceVersion: &wrapper.ResourceVersion}}
	return uncertain(c.request(c.client.Delete()).Name(wrapper.Name).Body(options).Do(ctx).Error())
}

// watch starts a watch that ends with the context, or when the host ends it.
func (c configMaps) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.Watch = true
	return c.request(c.watches.Get()).VersionedParams(&options, scheme.ParameterCodec).Watch(ctx)
}

// deletionWatch is a watch for the deletion of a wrapper, which the host answers without its version.
type deletionWatch struct {
	uid    types.UID
	events watch.Interface
	err    error
	cancel context.CancelFunc
}

// awaitDeletion starts to watch a wrapper before it is deleted. The watch starts at any
// version, not at that of the wrapper, which the host does not remember any more if the
// wrapper was written long ago. The caller must call stop.
func (c configMaps) awaitDeletion(ctx context.Context, wrapper *corev1.ConfigMap) *deletionWatch {
	ctx, cancel := context.WithTimeout(ctx, deletionTimeout)
	d := &deletionWatch{uid: wrapper.UID, cancel: cancel}
	d.events, d.err = c.watch(ctx, metav1.ListOptions{FieldSelector: byName(wrapper.Name), ResourceVersion: "0"})
	return d
}

// version waits for the deletion and returns its resource version.
func (d *deletionWatch) version() (string, error) {
	if d.err != nil {
		return "", d.err
	}
	for event := range d.events.ResultChan() {
		if deleted, ok := event.Object.(*corev1.ConfigMap); ok && event.Type == watch.Deleted && deleted.UID == d.uid {
			return deleted.ResourceVersion, nil
		}
	}
	return "", errors.New("watch ended before the deletion was reported")
}

func (d *deletionWatch) stop() {
	if d.events != nil {
		d.events.Stop()
	}
	d.cancel()
}
