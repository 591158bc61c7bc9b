// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package configmap

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/gate"
)

// unavailable translates an error of the kube-apiserver for clients of this
// server. Responses about resource versions, sizes, load and timeouts mean the same
// to them. Any other error, such as a missing permission of this server, is a 503.
func unavailable(err error) error {
	var status apierrors.APIStatus
	if errors.As(err, &status) && (apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsRequestEntityTooLargeError(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsServiceUnavailable(err)) {
		return err
	}
	return gate.Unavailable(fmt.Sprintf("storage in the host cluster is unavailable: %v", err))
}
