// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import "strings"

// Expand replaces $(NAME) with the value of that variable. A name without a value is kept,
// and $$ is a literal $.
func Expand(text string, values map[string]string) string {
	var result strings.Builder
	for {
		before, after, found := strings.Cut(text, "$")
		result.WriteString(before)
		if !found {
			return result.String()
		}
		name, rest, closed := strings.Cut(strings.TrimPrefix(after, "("), ")")
		switch {
		case strings.HasPrefix(after, "$"):
			result.WriteString("$")
			text = after[1:]
		case strings.HasPrefix(after, "(") && closed:
			if value, known := values[name]; known {
				result.WriteString(value)
			} else {
				result.WriteString("$(" + name + ")")
			}
			text = rest
		default:
			result.WriteString("$")
			text = after
		}
	}
}

// ExpandAll expands each of several texts.
func ExpandAll(texts []string, values map[string]string) []string {
	var expanded []string
	for _, text := range texts {
		expanded = append(expanded, Expand(text, values))
	}
	return expanded
}
