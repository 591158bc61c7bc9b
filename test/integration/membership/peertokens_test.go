// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
)

// R291: nobody gets a token of a peer that is valid for more than 30 days: not the peer, nor an
// administrator. Tokens of other service accounts are not limited.
func TestPeerTokensExpireWithin30Days(t *testing.T) {
	join(t, "east", "west")
	peer := expect.Must(kubernetes.NewForConfig(peerConfigs(t, west(), east())["kube-apiserver"]))(t)
	ns := fleet.CreateNamespace(t, "tokens", east())
	expect.Must(east().Kubernetes.CoreV1().ServiceAccounts(ns).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "peer-west"}}, metav1.CreateOptions{}))(t)
	request := func(ctx context.Context, client kubernetes.Interface, namespace string, life time.Duration) error {
		_, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, "peer-west", &authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(life.Seconds()))},
		}, metav1.CreateOptions{})
		return err
	}
	const longest = 30 * 24 * time.Hour
	for name, client := range map[string]kubernetes.Interface{"peer": peer, "administrator": east().Kubernetes} {
		expect.Eventually(t, "refusal of a longer token for the "+name, func(ctx context.Context) error {
			err := request(ctx, client, installation.Namespace, longest+time.Second)
			if err == nil {
				return errors.New("issued")
			}
			if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "peer-tokens.mcs-apiserver.io") {
				return fmt.Errorf("not refused by the policy: %w", err)
			}
			return nil
		})
		expect.NoError(t, request(t.Context(), client, installation.Namespace, longest))
	}
	expect.NoError(t, request(t.Context(), east().Kubernetes, ns, 2*longest))
}
