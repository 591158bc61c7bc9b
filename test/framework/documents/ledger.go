// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// ledger lists, for the tests that run commands, by directory and name, where these are: on a
// page, or under one heading of it. A test that does not run all of them fails.
var ledger = map[string][]string{
	"test/e2e/TestCommandsForDevelopers":                      {"docs/developers.md"},
	"test/e2e/stateful/TestCommandsForStatefulApplications":   {"docs/stateful.md"},
	"test/e2e/tutorial/TestTutorialLeadsToAResponse":          {"docs/tutorial.md"},
	"test/integration/moving/TestClustersMoveFromCRDsAndBack": {"docs/operations.md#Migrating from CRDs"},
	"test/e2e/docs/TestCommandsOfTheDocumentation": {
		"README.md",
		"CONTRIBUTING.md",
		"docs/chaos.md",
		"docs/clusters.md",
		"docs/clustersets.md",
		"docs/gateways.md",
		"docs/install.md",
		"docs/inventory.md",
		"docs/releases.md",
		"docs/runbooks.md",
		"docs/operations.md#Lost storage",
		"docs/operations.md#Backup and restore",
		"docs/operations.md#Moving to another storage",
		"docs/operations.md#Upgrading",
		"docs/operations.md#When a namespace has exported too much already",
		"docs/operations.md#Metrics",
		"docs/operations.md#Alerts",
		"docs/operations.md#A member is silent",
		"docs/operations.md#A member misbehaves",
		"docs/operations.md#Serving certificate",
		"docs/operations.md#Detaching the API in an emergency",
		"docs/operations.md#Uninstalling",
		"docs/operations.md#Why a service does not respond",
		"docs/operations.md#Testing a ClusterSet",
		"docs/operations.md#Support bundles",
		"docs/operations.md#A page",
	},
}

// runners returns the tests that the ledger has for a block.
func runners(block *Block) []string {
	var tests []string
	for test, places := range ledger {
		if slices.Contains(places, block.Page) || slices.Contains(places, block.Page+"#"+block.Heading) {
			tests = append(tests, test)
		}
	}
	slices.Sort(tests)
	return tests
}

// Check returns an error for every block with commands that neither a test runs nor an excuse
// precedes, and for everything in the ledger that does not exist.
func Check(root fs.FS) error {
	blocks, err := Read(root)
	if err != nil {
		return err
	}
	var problems []error
	run := map[string]bool{}
	for _, block := range blocks {
		if block.Commands() == "" {
			problems = append(problems, disguised(block))
			continue
		}
		tests := runners(block)
		switch {
		case block.Excuse != "":
		case len(tests) == 0:
			problems = append(problems, fmt.Errorf("%s: no test runs these commands: add heading %q to the ledger and to the test, or precede the block with <!-- not run by tests: REASON -->", block, block.Heading))
		case len(tests) > 1:
			problems = append(problems, fmt.Errorf("%s: several tests have to run these commands: %s", block, strings.Join(tests, ", ")))
		default:
			run[tests[0]+" "+block.Page] = true
			run[tests[0]+" "+block.Page+"#"+block.Heading] = true
		}
	}
	for test, places := range ledger {
		for _, place := range places {
			if !run[test+" "+place] {
				problems = append(problems, fmt.Errorf("ledger: %s has no commands for %s", place, test))
			}
		}
		problems = append(problems, exists(root, test))
	}
	return errors.Join(problems...)
}

var entered = regexp.MustCompile(`(?m)^(\$ |kubectl |make |helm )`)

// disguised returns an error for a block that has commands, but does not say so.
func disguised(block *Block) error {
	if block.Language != "console" && entered.MatchString(block.Text) && block.Page != reference {
		return fmt.Errorf("%s: a block with commands begins with ```sh or ```console", block)
	}
	return nil
}

// reference is generated, and has the syntax of commands.
const reference = "docs/reference.md"

// exists returns an error if there is no such test.
func exists(root fs.FS, test string) error {
	files, err := fs.Glob(root, path.Dir(test)+"/*_test.go")
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := fs.ReadFile(root, file)
		if err != nil {
			return err
		}
		if strings.Contains(string(text), "\nfunc "+path.Base(test)+"(t *testing.T) {\n") {
			return nil
		}
	}
	return fmt.Errorf("ledger: test %s does not exist", test)
}
