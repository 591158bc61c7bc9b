// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/printer"
)

// Advice tells users what to do about a failed request, as far as that depends
// on the request.
type Advice struct {
	// Forbidden is for users without the required permissions.
	Forbidden string
	// ServerError is for errors of the server; %s stands for the context.
	ServerError string
}

// DescribeInstallation are the arguments with which kubectl shows the state of mcs-apiserver,
// whichever namespace it is installed in.
const DescribeInstallation = "describe deployments -A -l app.kubernetes.io/name=mcs-apiserver"

const (
	userPermissions       = "ask for a role with this permission, such as view or edit in the namespace, or view in the whole cluster to read its members"
	adminPermissions      = "commands that change the members of a cluster require cluster-admin permissions in it, because they change Secrets, service accounts and roles"
	mcsServerError        = "mcs-apiserver is installed but not available: `kubectl --context %s " + DescribeInstallation + "` shows its state"
	kubernetesServerError = "the kube-apiserver failed: try again; `kubectl --context %s get --raw '/readyz?verbose'` shows its state"
)

// Advice by API and by the role that the command requires.
var (
	MCSUserAdvice         = Advice{userPermissions, mcsServerError}
	KubernetesUserAdvice  = Advice{userPermissions, kubernetesServerError}
	MCSAdminAdvice        = Advice{adminPermissions, mcsServerError}
	KubernetesAdminAdvice = Advice{adminPermissions, kubernetesServerError}
)

// WrapError adds the context, the cause and the remedy to the error of a failed
// request. Callers handle objects that do not exist.
func (c *Cluster) WrapError(err error, advice Advice) error {
	return fmt.Errorf("context %q: %w", c.Context, Diagnose(c.Context, err, advice))
}

// Diagnose is WrapError without the context in the message.
func Diagnose(name string, err error, advice Advice) error {
	err = printer.EscapeError(err)
	var status apierrors.APIStatus
	switch {
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("interrupted: %w", err)
	case apierrors.IsNotFound(err) && !IsObjectNotFound(err):
		return fmt.Errorf("mcs-apiserver is not installed, is detached, or did not register its API: install it, attach it with `kubectl mcs attach %[1]s`, check `kubectl --context %[1]s "+DescribeInstallation+"`, or choose another context (%[2]w)", name, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the kube-apiserver rejects your credentials: log in again, or correct the user of the context (%w)", err)
	case apierrors.IsForbidden(err):
		return diagnoseRefusal(err, advice)
	case utilnet.IsTimeout(err):
		return fmt.Errorf("request timed out: check the connection to the cluster, or set a longer --request-timeout (%w)", err)
	case errors.As(err, &status) && status.Status().Code >= http.StatusInternalServerError:
		return fmt.Errorf("%s (%w)", fmt.Sprintf(advice.ServerError, name), err)
	case IsUnreachable(err):
		return fmt.Errorf("the kube-apiserver is unreachable: check that it is running, and that the server of the context is correct (%w)", err)
	}
	return err // the message describes the problem
}

// lackOfPermission begins the explanation of a refusal by authorization, or for roles with
// permissions that the user does not have. All others are by admission control.
var lackOfPermission = regexp.MustCompile(`^(User "|user "|<nil>$|$)`)

// diagnoseRefusal tells users what to do about a refused request, which depends on what
// refused it: authorization, a quota, or admission control otherwise.
func diagnoseRefusal(err error, advice Advice) error {
	message := err.Error()
	_, explanation, explained := strings.Cut(message, "forbidden: ")
	switch {
	case explained && !lackOfPermission.MatchString(explanation):
		kind := "objects of this kind"
		if strings.Contains(message, "serviceexports") {
			kind = "ServiceExports"
		}
		switch {
		case strings.HasPrefix(explanation, "exceeded quota: "):
			return fmt.Errorf("quota exceeded: delete %s or ask for a larger ResourceQuota (%w)", kind, err)
		case strings.HasPrefix(explanation, "insufficient quota to consume: "):
			return fmt.Errorf("quota required: ask for a ResourceQuota for %s in the namespace (%w)", kind, err)
		}
		return err // the message describes the problem
	case strings.HasPrefix(message, "admission webhook "):
		return err
	}
	return fmt.Errorf("permission denied: %s (%w)", advice.Forbidden, err)
}

// IsUnreachable reports whether there was no response from a server.
func IsUnreachable(err error) bool {
	var transport *url.Error
	return errors.As(err, &transport) && !errors.Is(err, context.Canceled)
}

// IsObjectNotFound reports whether an object does not exist. If the API itself is
// not served, the response does not come from an API server.
func IsObjectNotFound(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
