// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterset

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

func TestNamesStayValidAndDistinct(t *testing.T) {
	long := strings.Repeat("a", 253)
	cluster := strings.Repeat("c", 63)
	one, other := ObjectName(long, cluster), ObjectName(long[:252]+"b", cluster)
	if one == other {
		t.Error("two long names were truncated to the same name")
	}
	for _, name := range []string{one, other, ObjectName("web", "east")} {
		if errs := validation.IsDNS1123Subdomain(name); len(errs) > 0 {
			t.Errorf("%q: %v", name, errs)
		}
		if !strings.HasSuffix(name, "."+cluster) && name != "web.east" {
			t.Errorf("%q does not end with the cluster ID", name)
		}
	}
}
