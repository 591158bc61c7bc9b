// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/repository"
)

// R592: all commands of the documentation are run by a test that exists, or say why not.
func TestCommandsAreRunOrExcused(t *testing.T) {
	root := expect.Must(repository.Root())(t)
	expect.NoError(t, Check(os.DirFS(root)))
	total, excused := 0, 0
	for _, block := range expect.Must(Read(os.DirFS(root)))(t) {
		if block.Commands() == "" {
			continue
		}
		total++
		if block.Excuse != "" {
			excused++
			t.Logf("%s: %s", block, block.Excuse)
		}
	}
	t.Logf("tests run %d of %d blocks with commands", total-excused, total)
}

const page = `# Page

    indented

## First

~~~sh
kubectl get pods
~~~

1. Item

   <!-- not run by tests: needs a registry -->
   ~~~sh
   make release \
     PUSH=x
   ~~~

## Second

~~~console
$ kubectl get members
ID     STATE
east   Local

$ kubectl get pods
~~~

~~~yaml
kind: Pod
~~~
`

// fenced replaces the fences of a page, which cannot be written in Go.
func fenced(text string) string { return strings.ReplaceAll(text, "~~~", "```") }

func TestBlocksHaveTheirHeadingCommandsAndExcuse(t *testing.T) {
	blocks := expect.Must(Blocks("page.md", fenced(page)))(t)
	want := []struct {
		place, heading, commands, excuse string
	}{
		{"page.md:7", "First", "kubectl get pods\n", ""},
		{"page.md:14", "First", "make release \\\n  PUSH=x\n", "needs a registry"},
		{"page.md:21", "Second", "kubectl get members\nkubectl get pods\n", ""},
		{"page.md:29", "Second", "", ""},
	}
	if len(blocks) != len(want) {
		t.Fatalf("got %d blocks, want %d", len(blocks), len(want))
	}
	for i, block := range blocks {
		if got := want[i]; block.String() != got.place || block.Heading != got.heading || block.Commands() != got.commands || block.Excuse != got.excuse {
			t.Errorf("%s under %q has commands %q and excuse %q, want %+v", block, block.Heading, block.Commands(), block.Excuse, got)
		}
	}
}

func TestPagesThatCannotBeReadAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"~~~sh\nmake": "page.md:1: the block does not end",
		"# A\n<!-- not run by tests: needs a registry -->\ntext\n~~~sh\nmake\n~~~\n": "page.md:3: an excuse has to precede a block directly",
		"<!-- not run by tests: needs a registry -->\n~~~yaml\nkind: Pod\n~~~\n":     "page.md:2: a block without commands needs no excuse",
	} {
		if _, err := Blocks("page.md", fenced(text)); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// R592: what the ledger does not have is found, and what it has and does not exist.
func TestCheckFindsWhatNoTestRuns(t *testing.T) {
	restore := ledger
	t.Cleanup(func() { ledger = restore })
	const directory = "test/e2e/"
	ledger = map[string][]string{directory + "TestFirst": {"README.md#First"}, directory + "TestGone": {"README.md#First", "docs/other.md"}}
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(fenced(text))} }
	err := Check(fstest.MapFS{
		"README.md":               file(page),
		"docs/disguised.md":       file("~~~\n$ kubectl get pods\n~~~\n"),
		directory + "any_test.go": file("package e2e\n\nfunc TestFirst(t *testing.T) {\n}\n"),
	})
	if err == nil {
		t.Fatal("nothing was found")
	}
	expect.Contains(t, err.Error(),
		"README.md:7: several tests have to run these commands: test/e2e/TestFirst, test/e2e/TestGone",
		`README.md:21: no test runs these commands: add heading "Second"`,
		"docs/disguised.md:1: a block with commands begins with",
		"docs/other.md has no commands for test/e2e/TestGone",
		"test test/e2e/TestGone does not exist")
	expect.Lacks(t, err.Error(), "README.md:14", "README.md:29", "test/e2e/TestFirst does not exist")
}

// R592: a script ends with the first command that fails, and does not wait for what it leaves in
// the background; what a user enters is its input.
func TestShell(t *testing.T) {
	shell := Shell{Dir: t.TempDir(), Env: []string{"PATH=/usr/bin:/bin", "WHO=you"}, Answer: "y"}
	if got, want := shell.Run(t, "sleep 1000 &\nread answer\nhead -c 9000 >/dev/null\nread other\necho $WHO $answer $other; pwd\n"), "you y y\n"+shell.Dir+"\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	shell.KeepGoing = true
	if got, want := shell.Run(t, "false | true\necho on\nfalse\n"), "on\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
