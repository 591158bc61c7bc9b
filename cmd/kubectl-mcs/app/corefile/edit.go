// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package corefile

import (
	"errors"
	"fmt"
	"strings"
)

// The server block is between these lines, so that exactly it is removed again.
const (
	begin = "# BEGIN kubectl mcs dns: removed by `kubectl mcs dns disable`"
	end   = "# END kubectl mcs dns"
)

// Block returns a server block that serves a zone from ServiceImports, with copies of
// directives of another one. It has no plugin ready: the readiness of CoreDNS does not
// depend on the multi-cluster API. The EndpointSlices of the cluster itself are not
// watched once more (noendpoints): those of imports are, and are not affected by it.
func Block(zone string, ports []string, copied []Directive) string {
	var keys []string
	for _, port := range ports {
		keys = append(keys, zone+":"+port)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s {\n    errors\n", strings.Join(keys, " "))
	for _, d := range copied {
		text.WriteString("    " + strings.Join(append([]string{d.Name}, d.Args...), " "))
		if len(d.Options) > 0 {
			text.WriteString(" {\n")
			for _, option := range d.Options {
				text.WriteString("        " + strings.Join(option.Words, " ") + "\n")
			}
			text.WriteString("    }")
		}
		text.WriteString("\n")
	}
	fmt.Fprintf(&text, "    kubernetes %[1]s {\n        multicluster %[1]s\n        noendpoints\n    }\n}\n", zone)
	return text.String()
}

// Add adds a server block to the end of a Corefile that has no such block yet. All
// other bytes stay the same, and Remove restores the text.
func Add(text, block string) (string, error) {
	before, err := Parse(text)
	if err != nil {
		return "", err
	}
	if before.Managed {
		return "", errors.New("the Corefile has this server block already")
	}
	newline := "\n"
	if strings.Contains(text, "\r\n") {
		newline = "\r\n"
	}
	added := strings.ReplaceAll(begin+"\n"+strings.TrimSuffix(block, "\n")+"\n"+end, "\n", newline)
	// Where the last line has no line break, the new last line has none either. From
	// this, Remove knows that there was none.
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += newline + added
	} else {
		text += added + newline
	}
	after, err := Parse(text)
	if err != nil {
		return "", err
	}
	if len(after.Servers) != len(before.Servers)+1 || !after.Managed {
		return "", errors.New("a server block cannot be added at the end of the Corefile")
	}
	return text, nil
}

// Remove removes the server block that Add added, and reports whether there was one.
func Remove(text string) (string, bool, error) {
	before, err := Parse(text)
	if err != nil || !before.Managed {
		return text, false, err
	}
	removed, err := remove(text)
	if err != nil {
		return text, false, err
	}
	after, err := Parse(removed)
	if err != nil || len(after.Servers) != len(before.Servers)-1 {
		return text, false, errNotOneServer
	}
	return removed, true, nil
}

func remove(text string) (string, error) {
	at, err := findManaged(text)
	if err != nil {
		return "", err
	}
	start, stop := at.start, at.end
	if stop < len(text) {
		stop++ // the line break
	} else {
		for _, newline := range []string{at.newline, "\n"} {
			if before, ok := strings.CutSuffix(text[:start], newline); ok {
				start = len(before)
				break
			}
		}
	}
	return text[:start] + text[stop:], nil
}

var errNotOneServer = fmt.Errorf("the lines %q and %q do not enclose one server block: remove both, and the server block between them", begin, end)

// span is a part of a text: from the first line of the server block to the end of the
// last one, without its line break.
type span struct {
	start, end int
	newline    string
}

// findManaged returns the part of a Corefile that Add added, or nil.
func findManaged(text string) (*span, error) {
	found := &span{start: -1, end: -1, newline: "\n"}
	offset := 0
	for line := range strings.Lines(text) {
		content := strings.TrimRight(line, "\r\n")
		switch {
		case content == begin && found.start < 0 && found.end < 0:
			found.start = offset
			if strings.HasSuffix(line, "\r\n") {
				found.newline = "\r\n"
			}
		case content == end && found.start >= 0 && found.end < 0:
			found.end = offset + len(strings.TrimSuffix(line, "\n"))
		case content == begin || content == end:
			return nil, errNotOneServer
		}
		offset += len(line)
	}
	switch {
	case found.start < 0:
		return nil, nil //nolint:nilnil // there is none
	case found.end < 0:
		return nil, fmt.Errorf("the line %q is missing after the line %q: restore it, or remove the latter and the server block after it", end, begin)
	}
	return found, nil
}
