// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package credential renews the tokens by which this cluster reads from the
// members. A token asks for its own successor: the account that it belongs to
// may do that, and nobody else has to have a hand in it.
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
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/loop"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/access"
)

// workers is how many members are asked for tokens at a time: one that hangs
// must not hold up the others.
const workers = 4

// Controller renews the tokens in the Secrets of members.
type Controller struct {
	client    kubernetes.Interface
	namespace string
	clock     clock.PassiveClock
	recorder  events.EventRecorder
	queue     loop.Queue
	informer  cache.SharedIndexInformer
	synced    cache.InformerSynced
	secrets   corev1listers.SecretNamespaceLister
	// request asks a member for a token.
	request func(ctx context.Context, secret *corev1.Secret, held token) (string, error)

	mu sync.Mutex
	// renewals are what was done so far, by the name of the Secret.
	renewals map[string]renewal
}

// renewal is when a token was last asked for, and what came of it.
type renewal struct {
	asked time.Time
	token string
}

// New returns a controller for the Secrets in a namespace.
func New(client kubernetes.Interface, namespace string, clock clock.PassiveClock, recorder events.EventRecorder) (*Controller, error) {
	informer := coreinformers.NewFilteredSecretInformer(client, namespace, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
		func(options *metav1.ListOptions) {
			options.FieldSelector = clusterset.MemberSecretSelector()
		})
	c := &Controller{
		client: client, namespace: namespace, clock: clock, recorder: recorder, queue: loop.NewQueue("credential"),
		informer: informer, secrets: corev1listers.NewSecretLister(informer.GetIndexer()).Secrets(namespace), request: requestToken, renewals: map[string]renewal{},
	}
	registration, err := informer.AddEventHandler(loop.OnChange(func(object metav1.Object) {
		c.queue.Add(types.NamespacedName{Namespace: namespace, Name: object.GetName()})
	}))
	if err != nil {
		return nil, err
	}
	c.synced = registration.HasSynced
	return c, nil
}

// Run works until the context ends. One replica at a time runs it.
func (c *Controller) Run(ctx context.Context) error {
	ctx = klog.NewContext(ctx, klog.LoggerWithName(klog.FromContext(ctx), "credential"))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.informer.RunWithContext(ctx)
	}()
	loop.Run(ctx, c.queue, workers, []cache.InformerSynced{c.synced}, c.sync)
	<-ended
	return nil
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
		return nil // the member's entry says what is wrong with its Secret
	}
	held, err := readToken(config.BearerToken)
	if err != nil {
		return nil // whoever made it renews it
	}
	now := c.clock.Now()
	if due := held.due(c.gave(key.Name, config.BearerToken)); due.After(now) {
		c.queue.AddAfter(key, due.Sub(now))
		return nil
	}
	if pause := c.pause(key.Name, now); pause > 0 {
		c.queue.AddAfter(key, pause)
		return nil
	}
	logger := klog.FromContext(ctx).WithValues("cluster", string(secret.Data[clusterset.MemberSecretClusterID]), "secret", secret.Name)
	renewed, err := c.request(ctx, secret, held)
	if err != nil {
		logger.Error(err, "Renewing the credential for a member failed", "expires", held.expires)
		c.recorder.Eventf(secret, nil, corev1.EventTypeWarning, "CredentialNotRenewed", "Renew", "%.1000s", fmt.Sprintf(
			"The credential expires at %s and could not be renewed: %v", held.expires.UTC().Format("2006-01-02T15:04:05Z"), err))
		c.queue.AddAfter(key, held.retryIn(now))
		return nil
	}
	updated, err := withToken(secret, renewed)
	if err != nil {
		return err
	}
	if _, err := c.client.CoreV1().Secrets(key.Namespace).Update(ctx, updated, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("store the renewed credential: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.renewals[key.Name] = renewal{now, renewed}
	logger.Info("Renewed the credential for a member")
	return nil
}

// gave says whether a token is what the member gave when it was last asked.
func (c *Controller) gave(secret, token string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.renewals[secret].token == token
}

// pause is how long to wait before a token is asked for again: a cluster that
// gives tokens that are due at once must not keep this one busy.
func (c *Controller) pause(secret string, now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.renewals[secret]
	if pause := last.asked.Add(renewPause).Sub(now); pause > 0 {
		return pause
	}
	c.renewals[secret] = renewal{now, last.token}
	return 0
}

// requestToken asks the member for a token in the name of the one that there is.
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
		return "", fmt.Errorf("the account may not renew its own token: in that cluster, allow it to create serviceaccounts/token %q in namespace %q (%w)",
			held.account, held.namespace, err)
	case apierrors.IsUnauthorized(err):
		return "", fmt.Errorf("that cluster does not accept the token any more: join the clusters again (%w)", err)
	case apierrors.IsNotFound(err):
		return "", fmt.Errorf("the server in the kubeconfig does not issue tokens: it has to be the kube-apiserver of that cluster (%w)", err)
	case err != nil:
		return "", err
	}
	if _, err := readToken(answer.Status.Token); err != nil {
		return "", fmt.Errorf("what that cluster gave instead is %w", err)
	}
	return answer.Status.Token, nil
}
