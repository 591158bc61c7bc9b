// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package response decodes what members answer, and explains why a request to
// a member failed.
package response

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

// ErrInvalid is the error for a response with impossible content.
var ErrInvalid = errors.New("invalid response")

// reasoned is an error with a reason of its own, and a message that stands alone.
type reasoned interface{ Reason() string }

// Limit returns the reason of an error that reports that a member exceeded a limit.
func Limit(err error) (reason string, ok bool) {
	var own reasoned
	if !errors.As(err, &own) {
		return "", false
	}
	return own.Reason(), true
}

// Expired is the error for a rejected credential that has expired.
type Expired struct {
	At  time.Time
	Err error
}

// Error implements error.
func (e *Expired) Error() string { return e.Err.Error() }

// Unwrap returns why the request failed.
func (e *Expired) Unwrap() error { return e.Err }

// Explain returns the reason of a failed request, and a message that tells what
// to do about it.
func Explain(err error) (reason, message string) {
	if reason, ok := Limit(err); ok {
		return reason, err.Error()
	}
	var status apierrors.APIStatus
	var expired *Expired
	switch {
	case errors.As(err, &expired) && apierrors.IsUnauthorized(err):
		return "Unauthorized", fmt.Sprintf("peer credential expired at %s: replace the token in the Secret, or in the file that declares it, for example with `kubectl mcs join`", expired.At.UTC().Format(time.RFC3339))
	case apierrors.IsUnauthorized(err):
		return "Unauthorized", "member rejects the credential in the Secret: replace it there, or in the file that declares it, for example with `kubectl mcs join`"
	case apierrors.IsForbidden(err):
		return "Forbidden", fmt.Sprintf("credential in the Secret lacks permissions in the member: bind it to the ClusterRole mcs-apiserver:peer (%v)", err)
	case apierrors.IsNotFound(err):
		return "NotInstalled", "member does not serve " + clusterset.GroupName + ": install mcs-apiserver there, attach its API if it was detached, or correct the server in the kubeconfig"
	case connectionLost(err):
		return "Unreachable", fmt.Sprintf("connection to the member was lost: %v", err)
	case unreadable(err):
		return "Unreadable", fmt.Sprintf("response of the member cannot be decoded: %v", err)
	case errors.As(err, &status) && status.Status().Code >= http.StatusInternalServerError:
		return "Unavailable", fmt.Sprintf("API of the member is unavailable: %v", err)
	case errors.As(err, &status):
		return "Refused", fmt.Sprintf("API of the member rejected the request: %v", err)
	}
	return "Unreachable", fmt.Sprintf("member is unreachable: %v", err)
}

// Unavailable reports whether a request failed although the Kubernetes API of the member
// responds: mcs-apiserver there is unavailable, or its API is not registered.
func Unavailable(err error) bool {
	return err != nil && (apierrors.IsServiceUnavailable(err) || apierrors.IsNotFound(err))
}

// unreadable reports whether a response was received but could not be decoded.
// The client has no error type for that, only the messages of its decoder.
func unreadable(err error) bool {
	text := err.Error()
	return errors.Is(err, ErrInvalid) || strings.Contains(text, "json: cannot unmarshal") || strings.Contains(text, "invalid character") ||
		strings.Contains(text, undecodableEvent)
}

// undecodableEvent begins the message of the client for a watch that failed in between, for whatever reason.
const undecodableEvent = "unable to decode an event from the watch stream: "

// connectionLost reports whether a watch ended because its connection did, as when the whole member
// is gone. What was received before could be decoded. The client passes on the message alone.
func connectionLost(err error) bool {
	_, cause, found := strings.Cut(err.Error(), undecodableEvent)
	return found && (strings.HasPrefix(cause, "http2: client conn") || strings.HasPrefix(cause, "http2: server sent GOAWAY") ||
		strings.HasPrefix(cause, "stream error: ") || strings.HasPrefix(cause, "read tcp "))
}
