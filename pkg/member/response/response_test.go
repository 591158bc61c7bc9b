// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package response

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// A watch whose connection is lost fails in the client's decoder, but nothing that the member sent is wrong.
func TestLostConnectionIsNotAnUnreadableResponse(t *testing.T) {
	for cause, want := range map[string]string{
		"http2: client connection lost": "Unreachable",
		"http2: server sent GOAWAY and closed the connection; LastStreamID=1, ErrCode=NO_ERROR": "Unreachable",
		"stream error: stream ID 7; INTERNAL_ERROR; received from peer":                         "Unreachable",
		"read tcp 10.0.0.1:40000->10.0.0.2:6443: read: no route to host":                        "Unreachable",
		"invalid character 'H' looking for beginning of value":                                  "Unreadable",
		"couldn't get version/kind; json parse error: http2: client connection lost":            "Unreadable",
	} {
		err := apierrors.NewInternalError(errors.New(undecodableEvent + cause))
		if reason, message := Explain(err); reason != want || !strings.Contains(message, cause) {
			t.Errorf("%q is explained as %s: %s", cause, reason, message)
		}
	}
}
