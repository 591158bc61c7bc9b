// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package secret

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corev1listers "k8s.io/client-go/listers/core/v1"
)

// ByUID returns the member Secret with a UID, which is also that of its Member. It is nil if
// there is none, as of a cluster that a hub relays.
func ByUID(secrets corev1listers.SecretLister, uid types.UID) (*corev1.Secret, error) {
	all, err := secrets.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	for _, secret := range all {
		if secret.UID == uid {
			return secret, nil
		}
	}
	return nil, nil
}
