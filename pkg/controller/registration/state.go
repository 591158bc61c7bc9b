// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"errors"
	"fmt"
	"strings"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

// Reasons of the Events that say why the API, or a part of it, is not registered.
const (
	eventRefused  = "RegistrationRefused"
	eventDetached = "Detached"
	eventLeft     = "LeftToOthers"
)

// state is what the controller reports about the registration. The zero value means
// that there is nothing to report.
type state struct {
	// event is the reason of an Event with the message.
	event, message string
	// unready makes the Pod unready.
	unready bool
}

// isWarning reports whether somebody should do something about it.
func (s state) isWarning() bool { return s.event != eventLeft }

// probe returns the response to a probe, as text or as an error.
func (s state) probe() (string, error) {
	switch {
	case s.unready:
		return "", errors.New("registration refused: " + s.message)
	case s.event == eventDetached:
		return s.message, nil
	}
	return "ok", nil
}

// registeredState reports refusals to register group-versions, or notices about those that are
// left to others. Once a part is registered, the remaining conflicts do not count as unready:
// the registered part would become unavailable.
func registeredState(refusals, notices []string, registered bool) state {
	switch {
	case len(refusals) > 0:
		return state{event: eventRefused, message: strings.Join(refusals, "; "), unready: !registered}
	case len(notices) > 0:
		return state{event: eventLeft, message: strings.Join(notices, "; ")}
	}
	return state{}
}

// detachedState reports that an administrator detached the API. The Pod stays ready, so
// that a new version can be rolled out before the API is attached again.
func detachedState(namespace string) state {
	return state{event: eventDetached, message: fmt.Sprintf("API is detached by ConfigMap %s/%s, so that ServiceExports and ServiceImports are not served; "+
		"run `kubectl mcs attach` or delete the ConfigMap to register the API again", namespace, clusterset.DetachedConfigMap)}
}
