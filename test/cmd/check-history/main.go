// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Command check-history checks the history of a chaos test again, and prints all violations.
package main

import (
	"fmt"
	"os"

	"github.com/mcs-apiserver/mcs-apiserver/test/chaos/check"
	"github.com/mcs-apiserver/mcs-apiserver/test/chaos/history"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "check-history:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("unexpected arguments %q: use the path of a history", args)
	}
	entries, err := history.Read(args[0])
	if err != nil {
		return err
	}
	found, err := check.Check(entries)
	if err != nil {
		return err
	}
	for _, violation := range found {
		fmt.Println(check.Describe(violation, entries))
	}
	fmt.Println(check.Summarize(entries))
	if len(found) > 0 {
		return fmt.Errorf("%d violations", len(found))
	}
	return nil
}
