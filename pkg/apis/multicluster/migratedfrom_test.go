// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package multicluster

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// R471: what is not an identity that an object can have had is refused.
func TestMigratedFromIsValidated(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const uid = "0a1b2c3d-0000-4000-8000-0123456789ab"
	for _, test := range []struct{ name, value, wrong string }{
		{"identity", `{"uid":"` + uid + `","creationTimestamp":"2024-05-06T07:08:09Z"}`, ""},
		{"time only", `{"creationTimestamp":"2024-05-06T07:08:09Z"}`, ""},
		{"clock that is slightly ahead", `{"creationTimestamp":"2026-01-01T00:01:00Z"}`, ""},
		{"empty", ``, "must be of the form"},
		{"not JSON", `2024-05-06T07:08:09Z`, "must be of the form"},
		{"unknown field", `{"creationTimestamp":"2024-05-06T07:08:09Z","name":"a"}`, "unknown field"},
		{"more than one", `{"creationTimestamp":"2024-05-06T07:08:09Z"}{}`, "single JSON object"},
		{"no time", `{"uid":"` + uid + `"}`, "after 1970"},
		{"null", `null`, "after 1970"},
		{"not a time", `{"creationTimestamp":"yesterday"}`, "must be of the form"},
		{"before 1970", `{"creationTimestamp":"1969-12-31T23:59:59Z"}`, "after 1970"},
		{"future", `{"creationTimestamp":"2026-01-01T00:01:01Z"}`, "in the future"},
		{"not a UID", `{"uid":"a","creationTimestamp":"2024-05-06T07:08:09Z"}`, "UUID"},
		{"UID in upper case", `{"uid":"` + strings.ToUpper(uid) + `","creationTimestamp":"2024-05-06T07:08:09Z"}`, "UUID"},
	} {
		t.Run(test.name, func(t *testing.T) {
			from, err := ParseMigratedFrom(test.value, now)
			if test.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), test.wrong) {
					t.Errorf("got %v and %v, want an error with %q", from, err, test.wrong)
				}
				return
			}
			if err != nil || from.String() != test.value {
				t.Errorf("got %s and %v, want %s", from, err, test.value)
			}
		})
	}
	if _, err := ParseMigratedFrom(MigratedFrom{UID: uid, CreationTimestamp: metav1.NewTime(now.Local())}.String(), now); err != nil {
		t.Errorf("a time in another zone is not written in UTC: %v", err)
	}
}
