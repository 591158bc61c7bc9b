// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package credential

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/peertoken"
)

// tryToken returns why a member does not accept the token in the configuration. Nothing but
// the token itself matters: everybody may get the version, unless an administrator decided otherwise.
func tryToken(ctx context.Context, config *rest.Config) error {
	config.Timeout = requestTimeout
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	err = client.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Error()
	if err != nil && !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
		return fmt.Errorf("member does not accept the token that it issued; check its service account keys, and proxies in front of it: %w", err)
	}
	return nil
}

// requestToken requests a token from a member with the one in the configuration.
func requestToken(ctx context.Context, config *rest.Config, account peertoken.Token) (string, error) {
	config.Timeout = requestTimeout
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", err
	}
	answer, err := client.CoreV1().ServiceAccounts(account.Namespace).CreateToken(ctx, account.Account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(lifetime.Seconds()))},
	}, metav1.CreateOptions{})
	switch {
	case apierrors.IsForbidden(err):
		return "", fmt.Errorf("service account is not allowed to renew its token; in the member cluster, allow it to create serviceaccounts/token %q in namespace %q: %w",
			account.Account, account.Namespace, err)
	case apierrors.IsUnauthorized(err):
		return "", fmt.Errorf("member no longer accepts the token; join the clusters again: %w", err)
	case apierrors.IsNotFound(err):
		return "", fmt.Errorf("server in the kubeconfig does not issue tokens; use the kube-apiserver of the member: %w", err)
	case err != nil:
		return "", err
	}
	return answer.Status.Token, nil
}
