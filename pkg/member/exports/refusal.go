// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package exports

import (
	"fmt"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/truncate"
)

// Reasons why an object, or a part of it, is not admitted.
const (
	ReasonInvalid        = "Invalid"
	ReasonNotRelayed     = "NotRelayed"
	ReasonNamespace      = "ForbiddenNamespace"
	ReasonAddress        = "ForbiddenAddress"
	ReasonClusterSetIP   = "ForbiddenClusterSetIP"
	ReasonObjectTooLarge = "ObjectTooLarge"
	ReasonMemoryLimit    = "MemoryLimit"
	ReasonServiceLimit   = "ServiceLimit"
	ReasonEndpointLimit  = "EndpointLimit"
)

// maxMessage limits the message of a refusal, in characters: parts of it come
// from the member, and there may be as many as there are objects.
const maxMessage = 250

// Refusal tells why an object, or a part of it, is not admitted.
type Refusal struct {
	Reason  string
	message string
}

// Error implements error.
func (r *Refusal) Error() string { return r.message }

// refuse returns a refusal that refers to nothing that the member sent.
func refuse(reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, message: truncate.Characters(fmt.Sprintf(format, args...), maxMessage)}
}
