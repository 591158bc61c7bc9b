// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package multicluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// MigratedFromAnnotation is the identity that an object had before mcs-apiserver took it
	// over. The object is created with it, and keeps it: its value is a MigratedFrom.
	MigratedFromAnnotation = ClusterSetKeyPrefix + "migrated-from"
	// MigratedAtAnnotation is when an object was taken over for all clients.
	MigratedAtAnnotation = ClusterSetKeyPrefix + "migrated-at"
	// MigrateVerb is the RBAC verb required for creating an object with the annotation
	// migrated-from: its age decides about precedence, and its UID about who owns it.
	MigrateVerb = "migrate"
)

// MigratedFrom is the identity that an object had before mcs-apiserver took it over.
type MigratedFrom struct {
	// UID is empty if the object gets a new one.
	UID               types.UID   `json:"uid,omitempty"`
	CreationTimestamp metav1.Time `json:"creationTimestamp"`
}

// String returns the value of the annotation.
func (m MigratedFrom) String() string {
	value, err := json.Marshal(m)
	if err != nil {
		panic(err) // a struct of texts
	}
	return string(value)
}

// futureTolerance is how far the clock of the server may be behind that of the kube-apiserver
// that created an object.
const futureTolerance = time.Minute

var uidFormat = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// ParseMigratedFrom parses and validates the value of the annotation.
func ParseMigratedFrom(value string, now time.Time) (MigratedFrom, error) {
	var from MigratedFrom
	decoder := json.NewDecoder(bytes.NewReader([]byte(value)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&from); err != nil {
		return MigratedFrom{}, fmt.Errorf(`must be of the form {"uid":"…","creationTimestamp":"2006-01-02T15:04:05Z"}: %w`, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return MigratedFrom{}, errors.New("must be a single JSON object")
	}
	at := from.CreationTimestamp.Time
	switch {
	case from.UID != "" && !uidFormat.MatchString(string(from.UID)):
		return MigratedFrom{}, errors.New("uid must be a UUID in lower case, as objects have it, or absent")
	case at.Before(time.Unix(0, 0)):
		return MigratedFrom{}, errors.New("creationTimestamp must be a time after 1970")
	case at.Sub(now) > futureTolerance:
		return MigratedFrom{}, fmt.Errorf("creationTimestamp must not be in the future: %s is after %s", at.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	return from, nil
}
