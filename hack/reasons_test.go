// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package hack

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
)

var (
	// reasonRow is a row of a table whose first cell has reasons, reasonCell is one of them.
	reasonRow  = regexp.MustCompile("(?m)^\\| (`[^|]*`) \\|")
	reasonCell = regexp.MustCompile("`([A-Z][A-Za-z]+)`")
	// reasonText is what a reason looks like, and reasonName what constants of them are named.
	reasonText = regexp.MustCompile(`^[A-Z][A-Za-z]+$`)
	reasonName = regexp.MustCompile(`^event[A-Z]|^(\w*[a-z])?[rR]eason([A-Z]\w*)?$|^NotResponding$`)
	conflict   = regexp.MustCompile(`^[A-Z][A-Za-z]+Conflict$`)
)

// reasons are those of conditions and Events that programs report.
type reasons struct {
	found sets.Set[string]
	// prefixes are those of reasons that are put together.
	prefixes sets.Set[string]
}

func (r reasons) add(expression ast.Expr) {
	switch expression := expression.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(expression.Value); err == nil && reasonText.MatchString(text) {
			r.found.Insert(text)
		}
	case *ast.BinaryExpr:
		if prefix, ok := expression.X.(*ast.BasicLit); ok && prefix.Kind == token.STRING {
			r.prefixes.Insert(strings.Trim(prefix.Value, `"`))
		}
	}
}

// Visit implements ast.Visitor: it finds what is in the place of a reason.
func (r reasons) Visit(node ast.Node) ast.Visitor {
	switch node := node.(type) {
	case *ast.ValueSpec:
		if of, ok := node.Type.(*ast.SelectorExpr); ok && of.Sel.Name == "StatusReason" {
			return nil // of an error of the API
		}
		for i, name := range node.Names {
			if reasonName.MatchString(name.Name) && i < len(node.Values) {
				r.add(node.Values[i])
			}
		}
	case *ast.KeyValueExpr:
		if key, ok := node.Key.(*ast.Ident); ok && key.Name == "Reason" {
			r.add(node.Value)
		}
	case *ast.AssignStmt:
		for i, target := range node.Lhs {
			if field, ok := target.(*ast.SelectorExpr); ok && field.Sel.Name == "Reason" && len(node.Lhs) == len(node.Rhs) {
				r.add(node.Rhs[i])
			}
		}
	case *ast.CallExpr:
		if called, ok := node.Fun.(*ast.SelectorExpr); ok && called.Sel.Name == "Eventf" && len(node.Args) > 3 {
			r.add(node.Args[3])
		}
	case *ast.CompositeLit:
		if of, ok := node.Type.(*ast.Ident); (ok && of.Name == "event" || node.Type == nil) && len(node.Elts) == 3 {
			r.add(node.Elts[1])
		}
	case *ast.FuncDecl:
		if node.Name.Name == "Explain" {
			ast.Inspect(node, func(node ast.Node) bool {
				if result, ok := node.(*ast.ReturnStmt); ok {
					r.add(result.Results[0])
				}
				return true
			})
		}
	case *ast.BasicLit:
		if conflict.MatchString(strings.Trim(node.Value, `"`)) {
			r.add(node)
		}
	}
	return r
}

// reported returns the reasons in the source code.
func reported(t *testing.T) reasons {
	t.Helper()
	all := reasons{sets.New[string](), sets.New[string]()}
	err := filepath.WalkDir("../pkg", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "/generated/") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err == nil {
			ast.Walk(all, file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// R294: docs/conditions.md has every reason of conditions and Events, and no other.
func TestReasonsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/conditions.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := sets.New[string]()
	for _, row := range reasonRow.FindAllStringSubmatch(string(text), -1) {
		for _, cell := range reasonCell.FindAllStringSubmatch(row[1], -1) {
			documented.Insert(cell[1])
		}
	}
	all := reported(t)
	if missing := sets.List(all.found.Difference(documented)); len(missing) > 0 || len(all.found) < 50 {
		t.Errorf("docs/conditions.md lacks %v; the source code has %d", missing, len(all.found))
	}
	for _, reason := range sets.List(documented.Difference(all.found)) {
		if !hasPrefix(reason, all.prefixes) {
			t.Errorf("docs/conditions.md has %s, which nothing reports", reason)
		}
	}
}

func hasPrefix(reason string, prefixes sets.Set[string]) bool {
	for prefix := range prefixes {
		if strings.HasPrefix(reason, prefix) {
			return true
		}
	}
	return false
}
