// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package configmap

import (
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"

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

// uncertain returns a 504 for the error of a write that may have been done. Clients
// repeat a request after any 5xx with Retry-After: a creation would then fail because the
// object exists, and a deletion because it does not.
func uncertain(err error) error {
	var status apierrors.APIStatus
	switch {
	case err == nil, utilnet.IsConnectionRefused(err):
		return err
	case errors.As(err, &status) && status.Status().Code < http.StatusInternalServerError:
		return err
	}
	return apierrors.NewTimeoutError(fmt.Sprintf("storage in the host cluster did not confirm the write, which may have been done: %v", err), 0)
}
