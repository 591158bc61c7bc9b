// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package printer

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
)

// Escape escapes line breaks, control characters and everything else that is not
// printable. Text from clusters must not be able to control the terminal, or to
// imitate lines of the output. Within a JSON string, the result means the same.
func Escape(text string) string { return escape(text, "") }

// escape escapes characters that are not printable, but for some.
func escape(text, except string) string {
	var escaped strings.Builder
	for _, r := range text {
		short := strings.IndexRune("\n\r\t", r)
		switch {
		case unicode.IsPrint(r), strings.ContainsRune(except, r):
			escaped.WriteRune(r)
		case short >= 0:
			escaped.WriteString([]string{`\n`, `\r`, `\t`}[short])
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&escaped, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&escaped, `\u%04x`, r)
		}
	}
	return escaped.String()
}

// EscapeError escapes the message of an error that contains text from a cluster.
func EscapeError(err error) error {
	if err == nil || Escape(err.Error()) == err.Error() {
		return err
	}
	return &escapedError{err}
}

type escapedError struct{ error }

func (e *escapedError) Error() string { return Escape(e.error.Error()) }
func (e *escapedError) Unwrap() error { return e.error }

// NewWriter returns a writer that escapes control characters but line breaks and
// tabs. It protects the terminal from text that was not escaped before.
func NewWriter(out io.Writer) io.Writer { return escapingWriter{out} }

type escapingWriter struct{ out io.Writer }

func (w escapingWriter) Write(text []byte) (int, error) {
	if _, err := io.WriteString(w.out, escape(string(text), "\n\t")); err != nil {
		return 0, err
	}
	return len(text), nil
}
