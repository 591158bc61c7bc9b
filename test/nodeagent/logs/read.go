// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// timeFormat has a fixed width, unlike time.RFC3339Nano.
const timeFormat = "2006-01-02T15:04:05.000000000Z07:00"

// Options select a part of a log.
type Options struct {
	// Follow waits for more entries until the log is closed.
	Follow bool
	// Tail selects the last lines.
	Tail *int64
	// Since selects entries from that time on.
	Since time.Time
	// Timestamps adds the time to each line.
	Timestamps bool
	// Limit is the maximum number of bytes.
	Limit *int64
}

var errLimit = errors.New("limit is reached")

// Read writes a log to w.
func (l *Log) Read(ctx context.Context, w io.Writer, options Options) error {
	file, err := os.Open(l.path)
	if err != nil {
		return err
	}
	defer file.Close()
	if options.Tail != nil {
		start, err := tailStart(file, *options.Tail)
		if err != nil {
			return err
		}
		if _, err := file.Seek(start, io.SeekStart); err != nil {
			return err
		}
	}
	if options.Limit != nil {
		w = &limitedWriter{w: w, left: *options.Limit}
	}
	err = l.copy(ctx, w, bufio.NewReader(file), options)
	if errors.Is(err, errLimit) {
		return nil
	}
	return err
}

// copy copies entries. Entries are written atomically, so data after the last line end is an incomplete
// entry.
func (l *Log) copy(ctx context.Context, w io.Writer, reader *bufio.Reader, options Options) error {
	var part []byte
	for {
		changed, closed := l.more()
		for {
			entry, err := reader.ReadBytes('\n')
			part = append(part, entry...)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return err
			}
			if err := writeEntry(w, part, options); err != nil {
				return err
			}
			part = nil
		}
		if closed || !options.Follow {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func writeEntry(w io.Writer, entry []byte, options Options) error {
	fields := bytes.SplitN(bytes.TrimSuffix(entry, []byte("\n")), []byte(" "), 4)
	if len(fields) != 4 {
		return fmt.Errorf("invalid log entry: %q", entry)
	}
	when, err := time.Parse(timeFormat, string(fields[0]))
	if err != nil {
		return fmt.Errorf("log entry without a time: %w", err)
	}
	if when.Before(options.Since) {
		return nil
	}
	var line []byte
	if options.Timestamps {
		line = append(append(line, fields[0]...), ' ')
	}
	line = append(line, fields[3]...)
	if string(fields[2]) == "F" {
		line = append(line, '\n')
	}
	_, err = w.Write(line)
	return err
}

// tailStart returns the offset of the last lines.
func tailStart(r io.Reader, lines int64) (int64, error) {
	if lines <= 0 {
		end, err := io.Copy(io.Discard, r)
		return end, err
	}
	// starts is a ring buffer: the oldest element is overwritten next.
	var starts []int64
	var count, offset int64
	for reader := bufio.NewReader(r); ; {
		entry, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, err
		}
		if count < lines {
			starts = append(starts, offset)
		} else {
			starts[count%lines] = offset
		}
		count++
		offset += int64(len(entry))
	}
	switch {
	case count == 0:
		return 0, nil
	case count < lines:
		return starts[0], nil
	}
	return starts[count%lines], nil
}

// limitedWriter returns an error when the limit is reached.
type limitedWriter struct {
	w    io.Writer
	left int64
}

func (l *limitedWriter) Write(data []byte) (int, error) {
	full := int64(len(data)) >= l.left
	if full {
		data = data[:l.left]
	}
	written, err := l.w.Write(data)
	l.left -= int64(written)
	if err == nil && full {
		err = errLimit
	}
	return written, err
}
