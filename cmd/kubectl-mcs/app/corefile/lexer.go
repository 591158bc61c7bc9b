// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package corefile reads Corefiles, and adds a server block to them and removes it.
//
// The parser of CoreDNS itself reads imported files and environment variables of the
// machine that it runs on. This one reads no file, but asks for its text: both are those
// of a Pod.
package corefile

import (
	"strings"
	"unicode"
)

// token is a word of a Corefile, as the lexer of CoreDNS reads it.
type token struct {
	text string
	// file is the path of the file.
	file string
	// line is the number of the line, from zero, on which the token starts, and
	// lastLine the one on which it ends.
	line, lastLine int
	// start is the offset of the token in the text.
	start int
}

// lexer splits a text into tokens.
type lexer struct {
	file   string
	text   string
	offset int
	line   int
	// unterminated is true if a quoted token does not end.
	unterminated bool
}

// tokenize returns all tokens of a file, and whether the last one is a quoted
// string that does not end.
func tokenize(file File) (tokens []token, unterminated bool) {
	l := &lexer{file: file.Path, text: file.Text}
	l.offset = len(file.Text) - len(strings.TrimPrefix(file.Text, "\ufeff"))
	for {
		next, ok := l.next()
		if !ok {
			return tokens, l.unterminated
		}
		tokens = append(tokens, next)
	}
}

// next returns the next token. Tokens end at white space, or at the closing quote if
// they start with one; a # starts a comment, and carriage returns are ignored, wherever
// they are.
func (l *lexer) next() (token, bool) {
	var value strings.Builder
	current, started, comment := token{}, false, false
	for offset, r := range l.text[l.offset:] {
		switch {
		case r == '\r':
			continue
		case unicode.IsSpace(r):
			if started {
				l.offset += offset // the line break is read again
				current.text, current.lastLine = value.String(), l.line
				return current, true
			}
			if r == '\n' {
				l.line++
				comment = false
			}
			continue
		case r == '#':
			comment = true
		}
		switch {
		case comment: // which ends with the token, if it started within one
			continue
		case !started:
			current, started = token{file: l.file, line: l.line, start: l.offset + offset}, true
			if r == '"' {
				l.offset += offset + 1
				return l.quoted(current), true
			}
		}
		value.WriteRune(r)
	}
	l.offset = len(l.text)
	current.text, current.lastLine = value.String(), l.line
	return current, started
}

// quoted returns a token whose opening quote was read. Only quotes can be escaped.
func (l *lexer) quoted(current token) token {
	var value strings.Builder
	escaped := false
	for offset, r := range l.text[l.offset:] {
		if r == '"' && !escaped {
			l.offset += offset + 1
			current.text, current.lastLine = value.String(), l.line
			return current
		}
		if r == '\\' && !escaped {
			escaped = true
			continue
		}
		if escaped && r != '"' {
			value.WriteByte('\\')
		}
		if r == '\n' {
			l.line++
		}
		value.WriteRune(r)
		escaped = false
	}
	l.offset, l.unterminated = len(l.text), true
	current.text, current.lastLine = value.String(), l.line
	return current
}
