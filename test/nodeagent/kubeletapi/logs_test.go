// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeletapi

import (
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/logs"
)

func TestLogOptions(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	for query, want := range map[string]logs.Options{
		"":                                     {},
		"follow=true&timestamps=true":          {Follow: true, Timestamps: true},
		"tailLines=5&limitBytes=7":             {Tail: ptr.To[int64](5), Limit: ptr.To[int64](7)},
		"sinceSeconds=60":                      {Since: now.Add(-time.Minute)},
		"sinceTime=2030-01-01T00%3A00%3A00Z":   {Since: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)},
		"previous=true&insecureSkipTLS=whatso": {},
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		got, err := logOptions(values, now)
		if err != nil {
			t.Errorf("%s: %v", query, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", query, diff)
		}
	}
	for _, query := range []string{"tailLines=x", "limitBytes=-1", "sinceSeconds=", "sinceTime=now"} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := logOptions(values, now); err == nil {
			t.Errorf("%s was accepted", query)
		}
	}
}
