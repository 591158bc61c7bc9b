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
	eventRefused   = "RegistrationRefused"
	eventDetached  = "Detached"
	eventLeft      = "LeftToOthers"
	eventMigrating = "Migrating"
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
func (s state) isWarning() bool { return s.event != eventLeft && s.event != eventMigrating }

// probe returns the response to a probe, as text or as an error.
func (s state) probe() (string, error) {
	switch {
	case s.unready:
		return "", errors.New("registration refused: " + s.message)
	case s.event == eventDetached, s.event == eventMigrating:
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

// migratingState reports that the API is being migrated, or was returned to CRDs: all but some
// group-versions are registered. The Pod is ready, because it serves the others.
func migratingState(namespace string, groupVersions []string) state {
	return state{event: eventMigrating, message: fmt.Sprintf("API is being migrated, as ConfigMap %s/%s says: %s is served by others, and all other group-versions are registered; "+
		"run `kubectl mcs migrate` to see what is next", namespace, clusterset.MigrationConfigMap, strings.Join(groupVersions, ", "))}
}

// detachedState reports that an administrator detached the API. The Pod stays ready, so
// that a new version can be rolled out before the API is attached again.
func detachedState(namespace string) state {
	return state{event: eventDetached, message: fmt.Sprintf("API is detached by ConfigMap %s/%s, so that ServiceExports and ServiceImports are not served; "+
		"run `kubectl mcs attach CONTEXT` or delete the ConfigMap to register the API again", namespace, clusterset.DetachedConfigMap)}
}
