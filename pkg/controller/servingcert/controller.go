// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package servingcert keeps the serving certificate of mcs-apiserver: in a
// Secret, so that all replicas serve with the same one, and as a file beside
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
	// SecretName is the Secret that replicas share.
	SecretName = "mcs-apiserver-serving-cert"
	// AuthorityFile is what a client of the server has to trust, in the
	// directory of the certificate.
	AuthorityFile = "ca.crt"
	authorityKey  = "ca.crt"
	// authoritySigningKey lies beside the certificate, so that it can be renewed
	// without everybody having to learn to trust a new authority.
	authoritySigningKey = "ca.key"
	// retry is how long to wait after a failure. A renewal has months of time.
	retry = 5 * time.Second
)

// CertificateFile is the file with certificate and key that the server is to
// serve with. They are in one file so that they change together.
func CertificateFile(dir string) string {
	return filepath.Join(dir, "serving.pem")
}

// Names are what a serving certificate of the Service has to say. The
// aggregator of the kube-apiserver verifies the first one.
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
	// onAuthority is called with the authorities to trust, whenever the files are in place.
	onAuthority func(ca []byte)
}

// New returns a controller that keeps the certificate of a Service in the
// given directory. onAuthority must not block.
func New(client kubernetes.Interface, namespace, service, dir string, clock clock.WithTicker, onAuthority func(ca []byte)) *Controller {
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
			workqueue.TypedRateLimitingQueueConfig[string]{Name: "servingcert", Clock: clock}),
	}
}

// Run works until the context ends. Every replica runs it, not only the leader.
func (c *Controller) Run(ctx context.Context) error {
	logger := klog.LoggerWithName(klog.FromContext(ctx), "servingcert")
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
		err := loop.Recover(ctx, "servingcert", types.NamespacedName{Namespace: c.namespace, Name: key}, func() (err error) {
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
			logger.Error(err, "Cannot keep the serving certificate; trying again", "secret", SecretName, "namespace", c.namespace)
			c.queue.AddRateLimited(key)
		}
		c.queue.Done(key)
	}
}

// sync makes Secret and files what they ought to be, and returns when to look again.
func (c *Controller) sync(ctx context.Context) (time.Time, error) {
	secret, current, err := c.read()
	if err != nil {
		return time.Time{}, err
	}
	bundle, next, err := current.Renew(c.clock.Now(), c.names)
	if err != nil {
		return time.Time{}, fmt.Errorf("renew the serving certificate: %w", err)
	}
	if !bundle.Equal(current) {
		if err := c.store(ctx, secret, bundle); err != nil {
			return time.Time{}, err
		}
		klog.FromContext(ctx).Info("Renewed the serving certificate", "secret", SecretName, "namespace", c.namespace, "next", next)
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
		return nil, Bundle{}, fmt.Errorf("the cache of Secrets holds a %T", object)
	}
	return secret, Bundle{
		CA:    secret.Data[authorityKey],
		CAKey: secret.Data[authoritySigningKey],
		Cert:  secret.Data[corev1.TLSCertKey],
		Key:   secret.Data[corev1.TLSPrivateKeyKey],
	}, nil
}

// store writes the Secret unless somebody else did so since it was read.
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

// write puts the files in place, the authority before what it has signed.
func (c *Controller) write(bundle Bundle) error {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	if err := replaceFile(filepath.Join(c.dir, AuthorityFile), bundle.CA); err != nil {
		return err
	}
	return replaceFile(CertificateFile(c.dir), slices.Concat(bundle.Cert, bundle.Key))
}

// replaceFile changes a file as a whole, so that nobody reads half of it, and
// by renaming, which is what the server watches for. A file that is as it
// should be is not touched.
func replaceFile(name string, data []byte) error {
	if old, err := os.ReadFile(name); err == nil && bytes.Equal(old, data) {
		return nil
	}
	if err := os.WriteFile(name+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}
