// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"errors"
	"strings"
	"testing"
)

// The chart refuses the same ranges: hack/chart has the test.
func TestClusterSetIPRangeIsNotTooLarge(t *testing.T) {
	for text, want := range map[string]string{
		"243.0.0.0/8": "", "fd00::/8": "", "10.255.249.0/32": "", "fd00:1:2::4:5:0/112": "",
		"0.0.0.0/0": "less than 8 bits", "240.0.0.0/4": "less than 8 bits", "fc00::/7": "less than 8 bits",
		"fd00:243:::/48": "must be of the form", "::ffff:243.0.0.0/104": "must not be IPv4-mapped",
	} {
		options := newClusterSetIPOptions()
		options.Ranges = []string{text}
		if err := errors.Join(options.validate()...); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}
