// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package logs stores the output of containers in files in the format of the Container Runtime
// Interface: a time, a stream, F for a full line or P for a partial one, and the text.
package logs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// maxLine is the length from which a line is split.
const maxLine = 16 << 10

// Log is the log of one run of a container.
type Log struct {
	path string

	mu      sync.Mutex
	file    *os.File
	changed chan struct{} // closed and replaced when the log grows
	closed  bool
}

// Create creates an empty log.
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

// Path returns the file of the log.
func (l *Log) Path() string { return l.path }

// Close closes the log. Readers that follow the log end.
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

// more returns a channel that is closed when the log grows or is closed after this call.
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

// Stream is the writer of one output stream of a container. It is not safe for concurrent use.
type Stream struct {
	log  *Log
	name string
	rest []byte // an incomplete line
}

// Stream returns the stream with the given name: stdout or stderr.
func (l *Log) Stream(name string) *Stream { return &Stream{log: l, name: name} }

// Write writes complete lines and keeps an incomplete line for later.
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
	// Do not retain the argument.
	s.rest = bytes.Clone(s.rest)
	if entries.Len() == 0 {
		return len(data), nil
	}
	return len(data), s.log.append(entries.Bytes())
}

// Close writes the last line if it is incomplete.
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
