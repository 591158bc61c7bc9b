// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/test/monitoring/dashboard"
)

const dashboardFile = "../../artifacts/monitoring/dashboard.json"

// R527: the dashboard shows metrics that are documented.
func TestMetricsOfTheDashboardAreDocumented(t *testing.T) {
	queries, err := dashboard.Queries(dashboardFile, "5m")
	if err != nil {
		t.Fatal(err)
	}
	if len(queries) == 0 {
		t.Fatal("the dashboard has no queries")
	}
	for _, query := range queries {
		expectDocumented(t, "panel "+query.Panel, query.Expression)
	}
}
