// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// metric is one that the code declares.
type metric struct {
	name, kind, help string
	labels           []string
}

// metricsIn returns all metrics that the programs of a repository declare, sorted by name.
func metricsIn(root string) ([]metric, error) {
	var found []metric
	for _, folder := range []string{"cmd", "pkg"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			var problems []error
			ast.Inspect(file, func(node ast.Node) bool {
				if call, ok := node.(*ast.CallExpr); ok {
					declared, ok, err := declaration(call)
					if err != nil {
						problems = append(problems, fmt.Errorf("%s: %w", files.Position(call.Pos()), err))
					} else if ok {
						found = append(found, declared)
					}
				}
				return true
			})
			return errors.Join(problems...)
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(found, func(a, b metric) int { return cmp.Compare(a.name, b.name) })
	return found, nil
}

// declaration returns the metric that a call of package metrics of component-base declares, if it does.
func declaration(call *ast.CallExpr) (metric, bool, error) {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return metric{}, false, nil
	}
	if of, ok := selector.X.(*ast.Ident); !ok || of.Name != "metrics" {
		return metric{}, false, nil
	}
	name, isNew := strings.CutPrefix(selector.Sel.Name, "New")
	kind := strings.ToLower(strings.TrimSuffix(name, "Vec"))
	switch {
	case !isNew:
	case name == "Desc":
		declared, err := fromDesc(call)
		return declared, true, err
	case kind == "gauge" || kind == "counter" || kind == "histogram":
		declared, err := fromOptions(call)
		declared.kind = kind
		return declared, true, err
	}
	return metric{}, false, nil
}

// fromDesc reads NewDesc(name, help, labels, …).
func fromDesc(call *ast.CallExpr) (metric, error) {
	if len(call.Args) < 3 {
		return metric{}, errors.New("NewDesc has fewer than three arguments")
	}
	name, nameErr := text(call.Args[0])
	help, helpErr := text(call.Args[1])
	labels, labelsErr := texts(call.Args[2])
	kind := "gauge"
	if strings.HasSuffix(name, "_total") {
		kind = "counter"
	}
	return metric{name, kind, help, labels}, errors.Join(nameErr, helpErr, labelsErr)
}

// fromOptions reads NewGauge(&GaugeOpts{…}) and the like, with labels if there are any.
func fromOptions(call *ast.CallExpr) (metric, error) {
	reference, ok := call.Args[0].(*ast.UnaryExpr)
	if !ok {
		return metric{}, errors.New("options are not &Opts{…}, which is the only form that is read")
	}
	options, ok := reference.X.(*ast.CompositeLit)
	if !ok {
		return metric{}, errors.New("options are not &Opts{…}, which is the only form that is read")
	}
	values := map[string]string{}
	for _, element := range options.Elts {
		pair, ok := element.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		key, ok := pair.Key.(*ast.Ident)
		if !ok {
			continue
		}
		switch key.Name {
		case "Namespace", "Subsystem", "Name", "Help":
			value, err := text(pair.Value)
			if err != nil {
				return metric{}, err
			}
			values[key.Name] = value
		}
	}
	parts := slices.DeleteFunc([]string{values["Namespace"], values["Subsystem"], values["Name"]}, func(part string) bool { return part == "" })
	declared := metric{name: strings.Join(parts, "_"), help: values["Help"]}
	if len(call.Args) < 2 {
		return declared, nil
	}
	var err error
	declared.labels, err = texts(call.Args[1])
	return declared, err
}

// text returns the value of a string literal, or of several that are concatenated.
func text(expression ast.Expr) (string, error) {
	switch e := expression.(type) {
	case *ast.BasicLit:
		return strconv.Unquote(e.Value)
	case *ast.BinaryExpr:
		left, leftErr := text(e.X)
		right, rightErr := text(e.Y)
		return left + right, errors.Join(leftErr, rightErr)
	}
	return "", errors.New("names, help texts and labels of metrics must be string literals")
}

// texts returns the values of a literal slice of strings, none for nil.
func texts(expression ast.Expr) ([]string, error) {
	literal, ok := expression.(*ast.CompositeLit)
	if !ok {
		if identifier, ok := expression.(*ast.Ident); ok && identifier.Name == "nil" {
			return nil, nil
		}
		return nil, errors.New("labels of metrics must be a literal slice of strings")
	}
	var values []string
	for _, element := range literal.Elts {
		value, err := text(element)
		if err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	return values, nil
}

func writeMetrics(page *bytes.Buffer, all []metric) {
	page.WriteString("## Metrics\n\nBoth programs also have the metrics of the Kubernetes libraries, such as `apiserver_request_duration_seconds`. All below are alpha: names may change.\n\n" +
		"| Metric | Type | Labels | Description |\n| --- | --- | --- | --- |\n")
	for _, declared := range all {
		fmt.Fprintf(page, "| `%s` | %s | %s | %s |\n", declared.name, declared.kind, strings.Join(declared.labels, ", "), cell(declared.help))
	}
}
