// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package documents reads commands from the documentation, so that tests run what users do.
// A ledger says which test runs which commands.
package documents

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// Block is a fenced block of a page.
type Block struct {
	// Page is the path of the page in the repository, and Line the line of the fence.
	Page string
	Line int
	// Heading is the nearest heading before the block.
	Heading string
	// Language is the word after the fence.
	Language string
	// Text has the lines of the block, without the indentation of the fence.
	Text string
	// Excuse is why no test runs the commands.
	Excuse string
}

func (b *Block) String() string { return fmt.Sprintf("%s:%d", b.Page, b.Line) }

// prompt begins a line of a console that a user enters.
const prompt = "$ "

// Commands returns what a user enters: all lines of a script, and those with a prompt of a
// console. Other blocks have no commands.
func (b *Block) Commands() string {
	switch b.Language {
	case "sh":
		return b.Text
	case "console":
		var commands strings.Builder
		for line := range strings.Lines(b.Text) {
			if command, ok := strings.CutPrefix(line, prompt); ok {
				commands.WriteString(command)
			}
		}
		return commands.String()
	}
	return ""
}

var (
	heading = regexp.MustCompile(`^#+ (.*)$`)
	fence   = regexp.MustCompile("^( *)```(\\w*)$")
	excuse  = regexp.MustCompile(`^ *<!-- not run by tests: (.+) -->$`)
)

// Blocks returns the blocks of a page. Excuses of nothing and blocks that do not end are errors.
func Blocks(page, text string) ([]*Block, error) {
	var (
		blocks []*Block
		open   *Block
		indent string
		last   string // heading
		excuse string
	)
	for number, line := range strings.Split(text, "\n") {
		at := fmt.Sprintf("%s:%d", page, number+1)
		switch fenced := fence.FindStringSubmatch(line); {
		case open != nil && strings.TrimSpace(line) == "```":
			if open.Excuse != "" && open.Commands() == "" {
				return nil, fmt.Errorf("%s: a block without commands needs no excuse", open)
			}
			blocks, open = append(blocks, open), nil
		case open != nil:
			open.Text += strings.TrimPrefix(line, indent) + "\n"
		case fenced != nil:
			indent = fenced[1]
			open = &Block{Page: page, Line: number + 1, Heading: last, Language: fenced[2], Excuse: excuse}
			excuse = ""
		case excuse != "":
			return nil, fmt.Errorf("%s: an excuse has to precede a block directly", at)
		default:
			if match := heading.FindStringSubmatch(line); match != nil {
				last = match[1]
			}
			excuse = excused(line)
		}
	}
	if open != nil {
		return nil, fmt.Errorf("%s: the block does not end", open)
	}
	return blocks, nil
}

// excused returns the excuse in a line.
func excused(line string) string {
	if match := excuse.FindStringSubmatch(line); match != nil {
		return match[1]
	}
	return ""
}

// pages are those whose commands are run by tests.
var pages = []string{"*.md", "docs/*.md"}

// Read returns the blocks of all pages of a repository.
func Read(root fs.FS) ([]*Block, error) {
	var all []*Block
	for _, pattern := range pages {
		names, err := fs.Glob(root, pattern)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			text, err := fs.ReadFile(root, name)
			if err != nil {
				return nil, err
			}
			blocks, err := Blocks(path.Clean(name), string(text))
			if err != nil {
				return nil, err
			}
			all = append(all, blocks...)
		}
	}
	return all, nil
}
