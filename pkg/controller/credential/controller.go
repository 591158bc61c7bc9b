// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package credential renews the tokens with which this cluster reads from its members. A
// service account may request tokens for itself, so that each token is used to request
// its successor, without any other permission.
package credential

import (
	"context"
	"fmt"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/loop"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/access"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/truncate"
)

// workers is how many tokens are requested concurrently: an unresponsive member must not
// delay the others.
const workers = 4

// Controller renews the tokens in member Secrets.
type Controller struct {
	client    kubernetes.Interface
	namespace string
	clock     clock.PassiveClock
	recorder  events.EventRecorder
	queue     loop.Queue
	handlers  loop.Handlers
	secrets   corev1listers.SecretNamespaceLister
	// request requests a token from a member.
	request func(ctx context.Context, secret *corev1.Secret, held token) (string, error)

	mu sync.Mutex
	// renewals are the last renewals by name of the Secret.
	renewals map[string]renewal
}

// renewal is when a token was last requested and stored, and the token that was stored.
type renewal struct {
	requested, stored time.Time
	token             string
}

// New returns a controller for the member Secrets in a namespace, which are the only
// Secrets of the informer.
func New(client kubernetes.Interface, namespace string, clock clock.PassiveClock, recorder events.EventRecorder, members coreinformers.SecretInformer) *Controller {
	c := &Controller{
		client: client, namespace: namespace, clock: clock, recorder: recorder, queue: loop.NewQueue("credential"),
		secrets: members.Lister().Secrets(namespace), request: requestToken, renewals: map[string]renewal{},
	}
	c.handlers = loop.Handlers{members.Informer(): loop.OnChange(func(object metav1.Object) {
		c.queue.Add(types.NamespacedName{Namespace: namespace, Name: object.GetName()})
	})}
	return c
}

// Run runs the controller until the context is canceled. Only the leader runs it.
func (c *Controller) Run(ctx context.Context) error {
	ctx = klog.NewContext(ctx, klog.LoggerWithName(klog.FromContext(ctx), "credential"))
	return c.handlers.Run(ctx, c.queue, workers, c.sync)
}

func (c *Controller) sync(ctx context.Context, key types.NamespacedName) error {
	secret, err := c.secrets.Get(key.Name)
	if apierrors.IsNotFound(err) {
		c.mu.Lock()
		delete(c.renewals, key.Name)
		c.mu.Unlock()
		return nil
	}
	if err != nil {
		return err
	}
	config, err := access.ClientConfig(secret.Data[clusterset.MemberSecretKubeconfig])
	if err != nil {
		return nil // the Member shows what is wrong with the Secret
	}
	held, err := readToken(config.BearerToken)
	if err != nil {
		return nil // not a credential that this controller can renew
	}
	now := c.clock.Now()
	if due := held.due(c.issued(key.Name, config.BearerToken)); due.After(now) {
		c.queue.AddAfter(key, due.Sub(now))
		return nil
	}
	if pause := c.pause(key.Name, config.BearerToken, now); pause > 0 {
		c.queue.AddAfter(key, pause)
		return nil
	}
	logger := klog.FromContext(ctx).WithValues("cluster", string(secret.Data[clusterset.MemberSecretClusterID]), "secret", secret.Name)
	renewed, err := c.request(ctx, secret, held)
	if err == nil {
		err = acceptable(renewed, now)
	}
	if err != nil {
		logger.Error(err, "Failed to renew peer credential, retrying", "expires", held.expires)
		c.recorder.Eventf(secret, nil, corev1.EventTypeWarning, "CredentialNotRenewed", "Renew", "%s", truncate.Bytes(fmt.Sprintf(
			"Peer credential expires at %s and could not be renewed; if this continues, run kubectl mcs join again before: %v", held.expires.UTC().Format("2006-01-02T15:04:05Z"), err), truncate.MaxEventNote))
		c.queue.AddAfter(key, held.retryIn(now))
		return nil
	}
	updated, err := withToken(secret, renewed)
	if err != nil {
		return err
	}
	if _, err := c.client.CoreV1().Secrets(key.Namespace).Update(ctx, updated, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("update Secret with renewed peer credential: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.renewals[key.Name] = renewal{now, now, renewed}
	logger.Info("Renewed peer credential")
	return nil
}

// issued reports whether a token is the one that the member issued last.
func (c *Controller) issued(secret, token string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.renewals[secret].token == token
}

// pause returns how long to wait before the next request: a member that issues tokens
// that are due at once must not cause a busy loop. A token that somebody else stored, as
// when clusters are joined again, is not made to wait for that.
func (c *Controller) pause(secret, token string, now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.renewals[secret]
	pause := last.requested.Add(requestPause).Sub(now)
	if last.token == token {
		pause = max(pause, last.stored.Add(renewPause).Sub(now))
	}
	if pause > 0 {
		return pause
	}
	last.requested = now
	c.renewals[secret] = last
	return 0
}

// requestToken requests a token from a member with the current one.
func requestToken(ctx context.Context, secret *corev1.Secret, held token) (string, error) {
	config, err := access.ClientConfig(secret.Data[clusterset.MemberSecretKubeconfig])
	if err != nil {
		return "", err
	}
	config.Timeout = requestTimeout
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", err
	}
	answer, err := client.CoreV1().ServiceAccounts(held.namespace).CreateToken(ctx, held.account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(lifetime.Seconds()))},
	}, metav1.CreateOptions{})
	switch {
	case apierrors.IsForbidden(err):
		return "", fmt.Errorf("service account is not allowed to renew its token; in the member cluster, allow it to create serviceaccounts/token %q in namespace %q: %w",
			held.account, held.namespace, err)
	case apierrors.IsUnauthorized(err):
		return "", fmt.Errorf("member no longer accepts the token; join the clusters again: %w", err)
	case apierrors.IsNotFound(err):
		return "", fmt.Errorf("server in the kubeconfig does not issue tokens; use the kube-apiserver of the member: %w", err)
	case err != nil:
		return "", err
	}
	return answer.Status.Token, nil
}
