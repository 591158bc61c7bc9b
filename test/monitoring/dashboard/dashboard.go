// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dashboard reads the queries of a Grafana dashboard.
package dashboard

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// Query is a query of a panel.
type Query struct {
	// Panel is the title of the panel.
	Panel string
	// Expression is in PromQL, without variables.
	Expression string
}

// Queries returns all queries of a dashboard, with an interval for rates.
func Queries(file, interval string) ([]Query, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var content struct {
		Panels []struct {
			Type, Title string
			Targets     []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(data, &content); err != nil {
		return nil, fmt.Errorf("decode %s: %w", file, err)
	}
	var queries []Query
	for _, panel := range content.Panels {
		if len(panel.Targets) == 0 && panel.Type != "row" {
			return nil, fmt.Errorf("panel %q has no query", panel.Title)
		}
		for _, target := range panel.Targets {
			expression := strings.ReplaceAll(target.Expr, "$__rate_interval", interval)
			if strings.Contains(expression, "$") {
				return nil, fmt.Errorf("panel %q: query %q has an unknown variable", panel.Title, target.Expr)
			}
			queries = append(queries, Query{panel.Title, expression})
		}
	}
	return queries, nil
}
