// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// Recorder appends entries to a file. It is safe for concurrent use.
type Recorder struct {
	mu     sync.Mutex
	file   *os.File
	buffer *bufio.Writer
	lines  int
	closed bool
	err    error
}

// Create creates the file of a history.
func Create(path string) (*Recorder, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &Recorder{file: file, buffer: bufio.NewWriter(file)}, nil
}

// Record appends an entry with the current time, unless the recorder is closed. Times do not
// decrease from line to line. An error is returned by Close.
func (r *Recorder) Record(entry Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	entry.At = time.Now().Round(0)
	line, err := json.Marshal(entry)
	if err == nil {
		_, err = r.buffer.Write(append(line, '\n'))
	}
	r.lines++
	r.err = errors.Join(r.err, err)
}

// Lines returns the number of entries.
func (r *Recorder) Lines() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lines
}

// Close writes everything to the file.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	return errors.Join(r.err, r.buffer.Flush(), r.file.Close())
}

// Read returns the entries of a file.
func Read(path string) ([]Entry, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	entries, err := Decode(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return entries, nil
}

// Decode returns the entries of a history.
func Decode(from io.Reader) ([]Entry, error) {
	var entries []Entry
	decoder := json.NewDecoder(bufio.NewReader(from))
	for {
		entry := Entry{Line: len(entries) + 1}
		if err := decoder.Decode(&entry); errors.Is(err, io.EOF) {
			return entries, nil
		} else if err != nil {
			return nil, fmt.Errorf("line %d: %w", len(entries)+1, err)
		}
		entries = append(entries, entry)
	}
}
