// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/hostile"
)

// maxSecret is how large the Secret of a hostile member may become: that of an honest one has
// a few KiB.
const maxSecret = 32 << 10

// minValidity is how long the token in a member Secret is valid, at least: who stored one that
// expires earlier would lose the member.
const minValidity = 10 * time.Minute

// expectCalm fails if tokens of the member were requested continuously, or large or short-lived
// ones were stored.
func expectCalm(t *testing.T, member *hostile.Member, secret *corev1.Secret) {
	t.Helper()
	if requests := member.Sent(hostile.Tokens); requests > 1 {
		t.Errorf("%d tokens were requested, want one", requests)
	}
	if size := secret.Size(); size > maxSecret {
		t.Errorf("member Secret has %d bytes", size)
	}
	config := expect.Must(clientcmd.RESTConfigFromKubeConfig(secret.Data[clusterset.MemberSecretKubeconfig]))(t)
	if expires, err := hostile.Expiry(config.BearerToken); err == nil && time.Until(expires) < minValidity {
		t.Errorf("member Secret has a token that expires in %s", time.Until(expires))
	}
}
