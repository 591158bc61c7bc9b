// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/oauth2"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/crdmirror"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/registration"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/crdmigration"
)

const (
	mirrorTokenLifetime = time.Hour
	mirrorTokenTimeout  = 30 * time.Second
)

// mirrorClients returns the clients with which objects of CRDs are copied: from the cluster, to
// the mcs-apiserver in the same Pod. They act as a service account that exists during a
// migration only: that of this process may write none of these objects.
func mirrorClients(host, own *rest.Config, clients registration.Clients, namespace string) (crdmirror.Clients, error) {
	tokens := transport.NewCachedTokenSource(mirrorAccount{clients.Kubernetes, namespace})
	as := func(config *rest.Config) *rest.Config {
		config = rest.CopyConfig(config)
		config.BearerToken, config.BearerTokenFile = "", ""
		config.QPS = -1
		config.Wrap(transport.ResettableTokenSourceWrapTransport(tokens))
		return config
	}
	anonymous := rest.AnonymousClientConfig(host)
	anonymous.Wrap(countWrites)
	custom, err := dynamic.NewForConfig(as(anonymous))
	mine, ownErr := dynamic.NewForConfig(as(own))
	if err := errors.Join(err, ownErr); err != nil {
		return crdmirror.Clients{}, fmt.Errorf("create clients for objects of CRDs: %w", err)
	}
	return crdmirror.Clients{Kubernetes: clients.Kubernetes, Host: clients.Dynamic, Custom: custom, Own: mine}, nil
}

// mirrorAccount issues tokens of the service account of a migration.
type mirrorAccount struct {
	client    kubernetes.Interface
	namespace string
}

var _ oauth2.TokenSource = mirrorAccount{}

// Token implements oauth2.TokenSource.
func (a mirrorAccount) Token() (*oauth2.Token, error) {
	ctx, cancel := context.WithTimeout(context.Background(), mirrorTokenTimeout)
	defer cancel()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(mirrorTokenLifetime.Seconds()))}}
	token, err := a.client.CoreV1().ServiceAccounts(a.namespace).CreateToken(ctx, crdmigration.Account, request, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("create a token of service account %s/%s, which `kubectl mcs migrate` creates: %w", a.namespace, crdmigration.Account, err)
	}
	return &oauth2.Token{AccessToken: token.Status.Token, Expiry: token.Status.ExpirationTimestamp.Add(-time.Minute)}, nil
}
