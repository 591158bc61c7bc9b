// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/hostile"
)

// maxSecret is how large the renewed credential of a hostile member may become: that of an honest one has
// a few KiB.
const maxSecret = 32 << 10

// minValidity is how long a renewed credential is valid, at least: who stored one that
// expires earlier would lose the member.
const minValidity = 10 * time.Minute

// expectCalm fails if tokens of the member were requested continuously, or large or short-lived
// ones were stored.
func expectCalm(t *testing.T, member *hostile.Member, secret *corev1.Secret) {
	t.Helper()
	if requests := member.Sent(hostile.Tokens); requests > 1 {
		t.Errorf("%d tokens were requested, want one", requests)
	}
	if secret == nil {
		return
	}
	if size := secret.Size(); size > maxSecret {
		t.Errorf("renewed credential has %d bytes", size)
	}
	for _, token := range secret.Data {
		if expires, err := hostile.Expiry(string(token)); err == nil && time.Until(expires) < minValidity {
			t.Errorf("renewed credential expires in %s", time.Until(expires))
		}
	}
}

// renewedCredential returns the renewed credential of a member, or nil.
func renewedCredential(t *testing.T, secrets corev1client.SecretInterface, member string) *corev1.Secret {
	t.Helper()
	renewed, err := secrets.Get(t.Context(), clusterset.RenewedSecretName(member), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	expect.NoError(t, err)
	return renewed
}
