// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package credential renews the tokens with which this cluster reads from its members. A
// service account may request tokens for itself, so that each token is used to request
// its successor, without any other permission. What a member Secret declares is never
// changed: a renewed token is in a Secret of its own.
package credential

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/loop"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/peertoken"
)

// workers is how many tokens are requested concurrently: an unresponsive member must not
// delay the others.
const workers = 4

// Controller renews the credentials of members.
type Controller struct {
	client    kubernetes.Interface
	namespace string
	clock     clock.PassiveClock
	recorder  events.EventRecorder
	queue     loop.Queue
	handlers  loop.Handlers
	// members are the member Secrets, and renewed those with renewed credentials.
	members, renewed corev1listers.SecretNamespaceLister
	// request requests a token from a member with the one in the configuration.
	request func(ctx context.Context, config *rest.Config, account peertoken.Token) (string, error)
	// try returns why a member does not accept the token in the configuration.
	try func(ctx context.Context, config *rest.Config) error

	mu sync.Mutex
	// renewals are the last renewals by name of the member Secret.
	renewals map[string]renewal
}

// renewal is what was done last.
type renewal struct {
	// requested and stored are when a token was.
	requested, stored time.Time
	// issued is a token that could not be stored yet, and from what it was exchanged for. The
	// member is not asked for another one meanwhile.
	from, issued string
}

// New returns a controller for a namespace. The member Secrets and those with renewed
// credentials are the only Secrets of the informers.
func New(client kubernetes.Interface, namespace string, clock clock.PassiveClock, recorder events.EventRecorder, members, renewed coreinformers.SecretInformer) *Controller {
	c := &Controller{
		client: client, namespace: namespace, clock: clock, recorder: recorder, queue: loop.NewQueue("credential"),
		members: members.Lister().Secrets(namespace), renewed: renewed.Lister().Secrets(namespace), request: requestToken, try: tryToken, renewals: map[string]renewal{},
	}
	c.handlers = loop.Handlers{
		members.Informer(): loop.OnChange(func(object metav1.Object) {
			c.queue.Add(types.NamespacedName{Namespace: namespace, Name: object.GetName()})
		}),
		renewed.Informer(): loop.OnChange(func(object metav1.Object) {
			if member, ok := clusterset.MemberSecretOf(object.GetName()); ok {
				c.queue.Add(types.NamespacedName{Namespace: namespace, Name: member})
			}
		}),
	}
	return c
}

// Run runs the controller until the context is canceled. Only the leader runs it.
func (c *Controller) Run(ctx context.Context) error {
	ctx = klog.NewContext(ctx, klog.LoggerWithName(klog.FromContext(ctx), "credential"))
	return c.handlers.Run(ctx, c.queue, workers, c.sync)
}

func (c *Controller) sync(ctx context.Context, key types.NamespacedName) error {
	member, err := c.members.Get(key.Name)
	if apierrors.IsNotFound(err) {
		c.mu.Lock()
		delete(c.renewals, key.Name)
		c.mu.Unlock()
		return nil
	}
	if err != nil {
		return err
	}
	existing, err := c.renewed.Get(clusterset.RenewedSecretName(key.Name))
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	credential, ok := held(member, existing)
	if !ok {
		return nil
	}
	if credential.renewed() && abandoned(member, existing) {
		c.adopt(ctx, member, existing, credential)
	}
	now := c.clock.Now()
	if due := credential.due(); due.After(now) {
		c.queue.AddAfter(key, due.Sub(now))
		return nil
	}
	issued := c.issued(key.Name, credential, now)
	if pause := c.pause(key.Name, credential.renewed(), now); issued == "" && pause > 0 {
		c.queue.AddAfter(key, pause)
		return nil
	}
	err = c.exchange(ctx, member, existing, credential, issued)
	if ctx.Err() != nil || errors.Is(err, errBehind) {
		return err
	}
	logger := loggerFor(ctx, member)
	if err != nil {
		logger.Error(err, "Failed to renew peer credential, retrying", "expires", credential.expires)
		c.recorder.Eventf(member, nil, corev1.EventTypeWarning, "CredentialNotRenewed", "Renew", "%s", credential.note(now, err))
		c.queue.AddAfter(key, credential.retryIn(now))
		return nil
	}
	logger.Info("Renewed peer credential")
	return nil
}

func loggerFor(ctx context.Context, member *corev1.Secret) klog.Logger {
	return klog.FromContext(ctx).WithValues("cluster", string(member.Data[clusterset.MemberSecretClusterID]), "secret", member.Name)
}

// adopt lets a renewed credential belong to the member Secret that exists now. If that is not
// possible, as without permission to change owners, the credential remains in use, and is
// stored again when the garbage collector has deleted it.
func (c *Controller) adopt(ctx context.Context, member, existing *corev1.Secret, credential credential) {
	text := credential.tokens[0].text
	err := c.store(ctx, member, existing, credential.from, text)
	if err == nil {
		return
	}
	loggerFor(ctx, member).Error(err, "Failed to adopt renewed peer credential")
	c.remember(member.Name, func(last *renewal) {
		if last.from != credential.from { // not one that was issued since then
			last.from, last.issued = credential.from, text
		}
	})
}

// issued returns the token that was issued but could not be stored, or "".
func (c *Controller) issued(member string, credential credential, now time.Time) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.renewals[member]
	if last.from != credential.from || last.issued == credential.tokens[0].text || acceptable(last.issued, credential.tokens[0].Token, now) != nil {
		return ""
	}
	return last.issued
}

// pause returns how long to wait before the next request: a member that issues tokens
// that are due at once must not cause a busy loop. What is newly declared, as when clusters
// are joined again, or if the renewed credential was deleted, is not made to wait for that.
func (c *Controller) pause(member string, renewed bool, now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.renewals[member]
	pause := last.requested.Add(requestPause).Sub(now)
	if renewed {
		pause = max(pause, last.stored.Add(renewPause).Sub(now))
	}
	return max(pause, 0)
}

// remember changes what was done last for a member.
func (c *Controller) remember(member string, change func(*renewal)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.renewals[member]
	change(&last)
	c.renewals[member] = last
}

// exchange stores the successor of a credential: the token that was issued before, or else
// one that is requested now.
func (c *Controller) exchange(ctx context.Context, member, existing *corev1.Secret, credential credential, issued string) error {
	if existing == nil {
		if err := c.available(ctx, clusterset.RenewedSecretName(member.Name)); err != nil {
			return err
		}
	}
	if issued == "" {
		now := c.clock.Now()
		c.remember(member.Name, func(last *renewal) { last.requested = now })
		var err error
		if issued, err = c.renew(ctx, credential, now); err != nil {
			return err
		}
		c.remember(member.Name, func(last *renewal) { last.from, last.issued = credential.from, issued })
	}
	if err := c.store(ctx, member, existing, credential.from, issued); err != nil {
		return err
	}
	c.remember(member.Name, func(last *renewal) { last.stored, last.from, last.issued = c.clock.Now(), "", "" })
	return nil
}

// renew returns the successor of the first token that has an acceptable one. Whatever is
// wrong with a token, the other one may be good.
func (c *Controller) renew(ctx context.Context, credential credential, now time.Time) (string, error) {
	var failure error
	for _, held := range credential.tokens {
		config := rest.CopyConfig(credential.config)
		config.BearerToken = held.text
		text, err := c.request(ctx, config, held.Token)
		if err == nil {
			err = acceptable(text, held.Token, now)
		}
		if err == nil {
			config.BearerToken = text
			err = c.try(ctx, config)
		}
		if err == nil {
			return text, nil
		}
		if failure == nil || apierrors.IsUnauthorized(failure) { // the other one may just have expired
			failure = err
		}
	}
	return "", failure
}

// errBehind is returned if the cache differs from what is stored. It is retried soon.
var errBehind = errors.New("cache is not up to date")

// available returns why the Secret with a renewed credential cannot be created, before a token
// is requested in vain.
func (c *Controller) available(ctx context.Context, name string) error {
	if err := validName(name); err != nil {
		return err
	}
	switch existing, err := c.client.CoreV1().Secrets(c.namespace).Get(ctx, name, metav1.GetOptions{}); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("read renewed peer credential: %w", err)
	case existing.Type != clusterset.RenewedSecretType:
		return fmt.Errorf("name conflict: Secret %q is of type %q, not %q; delete it, or give the member Secret another name", name, existing.Type, clusterset.RenewedSecretType)
	}
	return fmt.Errorf("%w: %w", errBehind, apierrors.NewAlreadyExists(corev1.Resource("secrets"), name))
}

// store writes the Secret with a renewed credential. existing is the one that it replaces, or
// nil. It belongs to the member Secret that exists now: the garbage collector deletes at once
// what belongs to an earlier one.
func (c *Controller) store(ctx context.Context, member, existing *corev1.Secret, from, text string) error {
	secrets := c.client.CoreV1().Secrets(member.Namespace)
	owner, err := secrets.Get(ctx, member.Name, metav1.GetOptions{})
	if err != nil {
		return storeError(clusterset.RenewedSecretName(member.Name), err)
	}
	renewed := withToken(owner, existing, from, text, c.clock.Now())
	if existing == nil {
		_, err = secrets.Create(ctx, renewed, metav1.CreateOptions{})
	} else {
		_, err = secrets.Update(ctx, renewed, metav1.UpdateOptions{})
	}
	return storeError(renewed.Name, err)
}

// storeError explains why a Secret could not be stored.
func storeError(name string, err error) error {
	switch {
	case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err):
		return fmt.Errorf("store renewed peer credential: %w: %w", errBehind, err)
	case err != nil:
		return fmt.Errorf("cannot store Secret %q; allow mcs-controller to write it, or delete it if it cannot be changed: %w", name, err)
	}
	return nil
}
