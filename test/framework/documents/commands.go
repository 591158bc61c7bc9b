// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"flag"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// Commands are the blocks that a test has to run.
type Commands struct {
	blocks []*Block
	ran    map[*Block]bool
}

// Assigned returns the blocks that the ledger has for a test. The test fails if it ends without
// having run all of them.
func Assigned(t *testing.T, root string) *Commands {
	t.Helper()
	all := expect.Must(Read(os.DirFS(root)))(t)
	c := &Commands{ran: map[*Block]bool{}}
	for _, block := range all {
		assigned := func(test string) bool { return path.Base(test) == t.Name() }
		if block.Commands() != "" && block.Excuse == "" && slices.ContainsFunc(runners(block), assigned) {
			c.blocks = append(c.blocks, block)
		}
	}
	if len(c.blocks) == 0 {
		t.Fatalf("the ledger has no commands for %s", t.Name())
	}
	t.Cleanup(func() {
		if selected := flag.Lookup("test.run").Value.String(); t.Failed() || strings.Contains(selected, "/") {
			return // some subtests did not end, or were not wanted
		}
		for _, block := range c.blocks {
			if !c.ran[block] {
				t.Errorf("%s: the ledger says that this test runs these commands, and it did not:\n%s", block, block.Commands())
			}
		}
	})
	return c
}

// Of returns the blocks of a page.
func (c *Commands) Of(t *testing.T, page string) []*Block {
	t.Helper()
	return c.find(t, page, func(block *Block) bool { return block.Page == page })
}

// Under returns the blocks under a heading of a page.
func (c *Commands) Under(t *testing.T, page, heading string) []*Block {
	t.Helper()
	return c.find(t, page+"#"+heading, func(block *Block) bool { return block.Page == page && block.Heading == heading })
}

func (c *Commands) find(t *testing.T, place string, wanted func(*Block) bool) []*Block {
	t.Helper()
	var found []*Block
	for _, block := range c.blocks {
		if wanted(block) {
			found = append(found, block)
		}
	}
	if len(found) == 0 {
		t.Fatalf("the ledger has no commands of %s for %s", place, t.Name())
	}
	return found
}

// Run runs blocks as one script, which must succeed, and returns its output.
func (c *Commands) Run(t *testing.T, shell Shell, blocks ...*Block) string {
	t.Helper()
	var script strings.Builder
	for _, block := range blocks {
		script.WriteString(block.Commands())
	}
	output := shell.Run(t, script.String())
	for _, block := range blocks {
		c.ran[block] = true
	}
	return output
}
