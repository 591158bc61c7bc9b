// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package servingcert creates and renews the serving certificate of mcs-apiserver. It is
// stored in a Secret, so that all replicas use the same one, and written to a file for
// each of them. It is renewed long before it expires.
package servingcert

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/loop"
)

const (
	// SecretName is the name of the Secret that all replicas share.
	SecretName = "mcs-apiserver-serving-cert"
	// AuthorityFile is the file with the CA bundle for clients of the server, in the
	// directory of the certificate.
	AuthorityFile = "ca.crt"
	authorityKey  = "ca.crt"
	// authoritySigningKey is stored with the certificate, so that the certificate can be
	// renewed without distributing a new CA.
	authoritySigningKey = "ca.key"
	// controllerName is that of the controller in metrics and logs.
	controllerName = "servingcert"
	// retry is the delay after a failure. A renewal is due months before the expiry.
	retry = 5 * time.Second
)

// CertificateFile returns the file with the serving certificate and its key. They are in
// one file so that they change together.
func CertificateFile(dir string) string {
	return filepath.Join(dir, "serving.pem")
}

// Names returns the DNS names of the serving certificate of a Service. The aggregation
// layer of the kube-apiserver verifies the first one.
func Names(namespace, service string) []string {
	host := service + "." + namespace + ".svc"
	return []string{host, host + ".cluster.local", "localhost"}
}

// Controller renews the Secret and writes the files.
type Controller struct {
	client    kubernetes.Interface
	namespace string
	names     []string
	dir       string
	clock     clock.WithTicker
	informer  cache.SharedIndexInformer
	queue     workqueue.TypedRateLimitingInterface[string]
	// onAuthority is called with the CA bundle whenever the files have been written.
	onAuthority func(ca []byte)
}

// New returns a controller that writes the serving certificate of a Service to a
// directory. onAuthority must not block.
func New(client kubernetes.Interface, namespace, service, dir string, clock clock.WithTicker, onAuthority func(ca []byte)) *Controller {
	loop.CountPanics(controllerName)
	return &Controller{
		client:      client,
		namespace:   namespace,
		names:       Names(namespace, service),
		dir:         dir,
		clock:       clock,
		onAuthority: onAuthority,
		informer: coreinformers.NewFilteredSecretInformer(client, namespace, 0, cache.Indexers{}, func(options *metav1.ListOptions) {
			options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, SecretName).String()
		}),
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemFastSlowRateLimiter[string](retry/10, retry, 5),
			workqueue.TypedRateLimitingQueueConfig[string]{Name: controllerName, Clock: clock}),
	}
}

// Run runs the controller until the context is canceled. Every replica runs it, not only
// the leader.
func (c *Controller) Run(ctx context.Context) error {
	logger := klog.LoggerWithName(klog.FromContext(ctx), controllerName)
	ctx = klog.NewContext(ctx, logger)
	enqueue := func(any) { c.queue.Add(SecretName) }
	if _, err := c.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue, DeleteFunc: enqueue, UpdateFunc: func(_, object any) { enqueue(object) },
	}); err != nil {
		return err
	}
	done := make(chan struct{})
	go func() { defer close(done); c.informer.RunWithContext(ctx) }()
	defer func() { <-done }()
	go func() { <-ctx.Done(); c.queue.ShutDown() }()
	if !cache.WaitForCacheSync(ctx.Done(), c.informer.HasSynced) {
		return nil
	}
	enqueue(nil)
	for {
		key, shutdown := c.queue.Get()
		if shutdown {
			return nil
		}
		var next time.Time
		err := loop.Recover(ctx, controllerName, types.NamespacedName{Namespace: c.namespace, Name: key}, func() (err error) {
			next, err = c.sync(ctx)
			return err
		})
		switch {
		case err == nil:
			c.queue.Forget(key)
			c.queue.AddAfter(key, next.Sub(c.clock.Now()))
		case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err):
			logger.V(2).Info("Another replica renewed the serving certificate first", "secret", SecretName)
			c.queue.AddRateLimited(key)
		default:
			logger.Error(err, "Failed to reconcile serving certificate, retrying", "secret", SecretName, "namespace", c.namespace)
			c.queue.AddRateLimited(key)
		}
		c.queue.Done(key)
	}
}

// sync reconciles the Secret and the files, and returns when the next renewal is due.
func (c *Controller) sync(ctx context.Context) (time.Time, error) {
	secret, current, err := c.read()
	if err != nil {
		return time.Time{}, err
	}
	bundle, next, err := current.Renew(c.clock.Now(), c.names)
	if err != nil {
		return time.Time{}, fmt.Errorf("renew serving certificate: %w", err)
	}
	if !bundle.Equal(current) {
		if err := c.store(ctx, secret, bundle); err != nil {
			return time.Time{}, err
		}
		klog.FromContext(ctx).Info("Renewed serving certificate", "secret", SecretName, "namespace", c.namespace, "next", next)
	}
	if err := c.write(bundle); err != nil {
		return time.Time{}, err
	}
	c.onAuthority(bundle.CA)
	return next, nil
}

func (c *Controller) read() (*corev1.Secret, Bundle, error) {
	object, exists, err := c.informer.GetStore().GetByKey(c.namespace + "/" + SecretName)
	if err != nil || !exists {
		return nil, Bundle{}, err
	}
	secret, ok := object.(*corev1.Secret)
	if !ok {
		return nil, Bundle{}, fmt.Errorf("unexpected type %T, want Secret", object)
	}
	return secret, Bundle{
		CA:    secret.Data[authorityKey],
		CAKey: secret.Data[authoritySigningKey],
		Cert:  secret.Data[corev1.TLSCertKey],
		Key:   secret.Data[corev1.TLSPrivateKeyKey],
	}, nil
}

// store writes the Secret. It fails if the Secret changed since it was read.
func (c *Controller) store(ctx context.Context, old *corev1.Secret, bundle Bundle) error {
	data := map[string][]byte{
		authorityKey:            bundle.CA,
		authoritySigningKey:     bundle.CAKey,
		corev1.TLSCertKey:       bundle.Cert,
		corev1.TLSPrivateKeyKey: bundle.Key,
	}
	secrets := c.client.CoreV1().Secrets(c.namespace)
	if old == nil {
		_, err := secrets.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Name:   SecretName,
				Labels: map[string]string{"app.kubernetes.io/name": "mcs-apiserver", "app.kubernetes.io/managed-by": "mcs-controller"},
			},
			Type: corev1.SecretTypeTLS,
			Data: data,
		}, metav1.CreateOptions{})
		return err
	}
	secret := old.DeepCopy()
	secret.Data = data
	_, err := secrets.Update(ctx, secret, metav1.UpdateOptions{})
	return err
}

// write writes the files, the CA bundle before the certificate that it verifies.
func (c *Controller) write(bundle Bundle) error {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	if err := replaceFile(filepath.Join(c.dir, AuthorityFile), bundle.CA); err != nil {
		return err
	}
	return replaceFile(CertificateFile(c.dir), slices.Concat(bundle.Cert, bundle.Key))
}

// replaceFile replaces a file atomically by renaming, which the server watches for. It
// does not write a file that has the right content.
func replaceFile(name string, data []byte) error {
	if old, err := os.ReadFile(name); err == nil && bytes.Equal(old, data) {
		return nil
	}
	if err := os.WriteFile(name+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}
