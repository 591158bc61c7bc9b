// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package gather

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/printer"
)

// Limits, before compression.
const (
	maxFile   = 16 << 20
	maxBundle = 256 << 20
	// maxName limits each part of the name of a file.
	maxName = 253
)

// errFull is for what does not fit any more. What was written before is kept.
var errFull = errors.New("the limit of the size is reached")

// bundle is a compressed archive that is being written.
type bundle struct {
	file *os.File
	// target is where the file is moved in the end, if it is not there already.
	target string
	zip    *gzip.Writer
	tar    *tar.Writer
	// root is the directory in the archive.
	root string
	now  time.Time
	// maxFile and maxBundle limit the size of a file, and of all.
	maxFile, maxBundle int64
	size               int64
	// full is set when something did not fit into the bundle. Nothing else is read then.
	full bool
	// entries and failures are for the index, and names are those of the entries.
	entries, failures []string
	names             sets.Set[string]
}

// create creates the file of a bundle, which only its owner may read. An existing one is replaced only
// if the user wants that, and not before the bundle is complete.
func create(name string, overwrite bool, now time.Time) (*bundle, error) {
	b := &bundle{root: strings.TrimSuffix(strings.TrimSuffix(filepath.Base(name), ".gz"), ".tar"), now: now, names: sets.New[string](), maxFile: maxFile, maxBundle: maxBundle}
	var err error
	if overwrite {
		b.target = name
		b.file, err = os.CreateTemp(filepath.Dir(name), ".mcs-gather-*") // has mode 0600
	} else {
		b.file, err = os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	}
	switch {
	case errors.Is(err, os.ErrExist):
		return nil, fmt.Errorf("file %s exists: choose another one with --file, or replace it with --overwrite", name)
	case err != nil:
		return nil, err
	}
	b.zip = gzip.NewWriter(b.file)
	b.tar = tar.NewWriter(b.zip)
	return b, nil
}

// add adds a file. What the function writes is in the bundle even if it fails later; the index says why
// it is not complete. The error is that the bundle cannot be written.
func (b *bundle) add(name string, write func(io.Writer) error) error {
	if !isPlainName(name) || b.names.Has(name) {
		b.failed(name, errors.New("the name that the cluster sent is not valid"))
		return nil
	}
	if b.full {
		b.failed(name, errFull)
		return nil
	}
	spool, err := os.CreateTemp(filepath.Dir(b.file.Name()), ".mcs-gather-*") // the archive needs the size first
	if err != nil {
		return err
	}
	defer func() {
		spool.Close()
		_ = os.Remove(spool.Name())
	}()
	limited := &limitedWriter{to: spool, left: min(b.maxFile, b.maxBundle-b.size)}
	ofBundle := limited.left < b.maxFile
	if failure := write(limited); failure != nil {
		b.failed(name, failure)
		b.full = ofBundle && errors.Is(failure, errFull)
	}
	if limited.failure != nil {
		return limited.failure
	}
	if limited.written == 0 {
		return nil
	}
	if _, err := spool.Seek(0, io.SeekStart); err != nil {
		return err
	}
	header := &tar.Header{Name: path.Join(b.root, name), Mode: 0o600, Size: limited.written, ModTime: b.now, Format: tar.FormatPAX}
	if err := b.tar.WriteHeader(header); err != nil {
		return err
	}
	if _, err := io.Copy(b.tar, spool); err != nil {
		return err
	}
	b.size += limited.written
	b.names.Insert(name)
	b.entries = append(b.entries, fmt.Sprintf("%s (%d bytes)", name, limited.written))
	return nil
}

// isPlainName reports whether a file may have a name. Parts of it are what a cluster sends, and may not lead
// out of the directory of the cluster, be hidden, nor be what an archive cannot have.
func isPlainName(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || strings.HasPrefix(part, ".") || len(part) > maxName || unusual.MatchString(part) {
			return false
		}
	}
	return true
}

// failed records what could not be read, and why.
func (b *bundle) failed(name string, err error) {
	b.failures = append(b.failures, printer.Escape(redact(fmt.Sprintf("%s: %v", name, err))))
}

// index writes the last file: what is in the bundle, and what is not.
func (b *bundle) index(heading string) error {
	entries, failures := b.entries, b.failures
	b.maxFile, b.maxBundle, b.full = maxFile, b.size+maxFile, false // there is always space for it
	return b.add("index.txt", func(w io.Writer) error {
		fmt.Fprintln(w, heading)
		fmt.Fprintln(w, "\nSecrets are listed without their data. Credentials were removed from everything else as far as they can be recognized.")
		fmt.Fprintln(w, "Metrics are not read: mcs-apiserver and mcs-controller require credentials for them, which the kube-apiserver does not pass on. Take them from your monitoring.")
		fmt.Fprintln(w, "\nFiles:")
		for _, entry := range entries {
			fmt.Fprintln(w, "  "+entry)
		}
		fmt.Fprintln(w, "\nNot read, or not completely:")
		for _, failure := range failures {
			fmt.Fprintln(w, "  "+failure)
		}
		if len(failures) == 0 {
			fmt.Fprintln(w, "  nothing")
		}
		return nil
	})
}

// close completes the bundle.
func (b *bundle) close() error {
	if err := errors.Join(b.tar.Close(), b.zip.Close(), b.file.Close()); err != nil {
		return err
	}
	if b.target != "" {
		return os.Rename(b.file.Name(), b.target)
	}
	return nil
}

// discard removes a bundle that is not complete.
func (b *bundle) discard() {
	b.file.Close()
	_ = os.Remove(b.file.Name())
}

// limitedWriter writes until the limit is reached. A write that does not fit is left out.
type limitedWriter struct {
	to            io.Writer
	left, written int64
	// failure is an error of the file, not of the limit.
	failure error
}

func (w *limitedWriter) Write(data []byte) (int, error) {
	if int64(len(data)) > w.left {
		return 0, errFull
	}
	n, err := w.to.Write(data)
	w.left, w.written = w.left-int64(n), w.written+int64(n)
	if err != nil {
		w.failure = err
	}
	return n, err
}
