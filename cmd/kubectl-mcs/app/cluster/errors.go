// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Advice is what to do about a request that failed, as far as that depends on
// what was asked for.
type Advice struct {
	// Forbidden is for who may not do that.
	Forbidden string
	// Broken is for when the server has failed; %s stands for the context.
	Broken string
}

const (
	userRights  = "ask for a role that allows it, such as view or edit in the namespace, or view in the whole cluster for its members"
	adminRights = "joining and leaving take the rights of a cluster-admin, because they are about Secrets, accounts and roles"
	mcsBroken   = "mcs-apiserver is installed but does not answer: `kubectl --context %s describe deployment -n mcs-system mcs-apiserver` may tell why"
	kubeBroken  = "its kube-apiserver has failed: try again; `kubectl --context %s get --raw '/readyz?verbose'` may tell why"
)

// Who asks, and whom.
var (
	MCSUserAdvice         = Advice{userRights, mcsBroken}
	KubernetesUserAdvice  = Advice{userRights, kubeBroken}
	MCSAdminAdvice        = Advice{adminRights, mcsBroken}
	KubernetesAdminAdvice = Advice{adminRights, kubeBroken}
)

// WrapError says of a request that failed where that was, what is wrong and what to
// do about it. That an object is not there is for the caller to tell.
func (c *Cluster) WrapError(err error, advice Advice) error {
	return fmt.Errorf("context %q: %w", c.Context, Diagnose(c.Context, err, advice))
}

// Diagnose is WrapError for when it is clear which context is meant.
func Diagnose(name string, err error, advice Advice) error {
	var status apierrors.APIStatus
	switch {
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("interrupted: %w", err)
	case apierrors.IsNotFound(err) && !IsObjectNotFound(err):
		return fmt.Errorf("mcs-apiserver is not installed there: install it, or choose another context (%w)", err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("its kube-apiserver does not accept your credential: log in again, or correct the user of the context (%w)", err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("you may not do that: %s (%w)", advice.Forbidden, err)
	case utilnet.IsTimeout(err):
		return fmt.Errorf("no answer in time: check that you can reach the cluster, or allow for more with --request-timeout (%w)", err)
	case errors.As(err, &status) && status.Status().Code >= http.StatusInternalServerError:
		return fmt.Errorf("%s (%w)", fmt.Sprintf(advice.Broken, name), err)
	case errors.As(err, &status):
		return err // the server says what is wrong with the request
	}
	return fmt.Errorf("its kube-apiserver cannot be reached: check that it runs, and that the server of the context is right (%w)", err)
}

// IsObjectNotFound says whether there is no such object. If the API is not served at
// all, the answer does not come from an API.
func IsObjectNotFound(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
