// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package logs keeps what containers print, in files in the format of the
// Container Runtime Interface: a time, a stream, F for a full line or P for a
// part of one, and the text.
package logs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// maxLine is the length from which a line is written in parts.
const maxLine = 16 << 10

// Log is the log of one run of a container.
type Log struct {
	path string

	mu      sync.Mutex
	file    *os.File
	changed chan struct{} // closed, and replaced, when there is more
	closed  bool
}

// Create makes an empty log.
func Create(path string) (*Log, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &Log{path: path, file: file, changed: make(chan struct{})}, nil
}

// Path is the file of the log.
func (l *Log) Path() string { return l.path }

// Close ends the log. Readers that follow it come to an end.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	close(l.changed)
	return l.file.Close()
}

// more is closed when the log has grown, or has ended, since this call.
func (l *Log) more() (changed <-chan struct{}, closed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed, l.closed
}

func (l *Log) append(entries []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return os.ErrClosed
	}
	if _, err := l.file.Write(entries); err != nil {
		return err
	}
	close(l.changed)
	l.changed = make(chan struct{})
	return nil
}

// Stream takes the output of one stream of a container. It is for one writer.
type Stream struct {
	log  *Log
	name string
	rest []byte // the beginning of a line
}

// Stream is the stream with a name: stdout or stderr.
func (l *Log) Stream(name string) *Stream { return &Stream{log: l, name: name} }

// Write writes the full lines, and keeps the beginning of a line for later.
func (s *Stream) Write(data []byte) (int, error) {
	s.rest = append(s.rest, data...)
	now := time.Now()
	var entries bytes.Buffer
	for {
		line, rest, full := bytes.Cut(s.rest, []byte("\n"))
		if !full && len(line) < maxLine {
			break
		}
		if len(line) > maxLine {
			line, rest, full = s.rest[:maxLine], s.rest[maxLine:], false
		}
		format(&entries, now, s.name, full, line)
		s.rest = rest
	}
	// Keep no reference to what was written.
	s.rest = bytes.Clone(s.rest)
	if entries.Len() == 0 {
		return len(data), nil
	}
	return len(data), s.log.append(entries.Bytes())
}

// Close writes a last line that has no end.
func (s *Stream) Close() error {
	if len(s.rest) == 0 {
		return nil
	}
	var entry bytes.Buffer
	format(&entry, time.Now(), s.name, false, s.rest)
	s.rest = nil
	return s.log.append(entry.Bytes())
}

func format(entries *bytes.Buffer, now time.Time, stream string, full bool, line []byte) {
	tag := "F"
	if !full {
		tag = "P"
	}
	fmt.Fprintf(entries, "%s %s %s %s\n", now.UTC().Format(timeFormat), stream, tag, line)
}
