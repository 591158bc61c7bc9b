// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/servingcert"
)

// projectCA writes a CA bundle as the kubelet writes a volume: a link to a directory is replaced.
func projectCA(t *testing.T, dir, version string, ca []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, version), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, version, "ca.crt"), ca, 0o644); err != nil {
		t.Fatal(err)
	}
	before, _ := os.Readlink(filepath.Join(dir, "..data"))
	if err := os.Symlink(version, filepath.Join(dir, "..data_tmp")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	if before != "" {
		if err := os.RemoveAll(filepath.Join(dir, before)); err != nil {
			t.Fatal(err)
		}
	}
}

// R371: another CA in the file of --serving-ca-file is noticed, and certificates of the one before
// are trusted meanwhile.
func TestCAFileIsFollowed(t *testing.T) {
	before, after := bundle(t, serverName), bundle(t, serverName)
	dir := t.TempDir()
	projectCA(t, dir, "..1", before.CA)
	file := filepath.Join(dir, "ca.crt")
	if err := os.Symlink("..data/ca.crt", file); err != nil {
		t.Fatal(err)
	}
	trust, registered := newAuthority(), make(chan []byte, 10)
	follow, err := followCAFile(file, func(ca []byte) {
		trust.add(ca)
		registered <- ca
	})
	if err != nil {
		t.Fatal(err)
	}
	if ca := <-registered; !bytes.Equal(ca, before.CA) {
		t.Errorf("registered %s", ca)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- follow(ctx) }()
	projectCA(t, dir, "..2", after.CA)
	select {
	case ca := <-registered:
		if !bytes.Equal(ca, after.CA) {
			t.Errorf("registered %s", ca)
		}
	case <-time.After(2 * time.Minute):
		t.Error("changed CA is not noticed")
	}
	for name, server := range map[string]servingcert.Bundle{"before": before, "after": after} {
		if err := trust.verify(serverName, shown(t, server)); err != nil {
			t.Errorf("certificate from %s is not trusted: %v", name, err)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestCAFileIsRequired(t *testing.T) {
	if _, err := followCAFile(filepath.Join(t.TempDir(), "ca.crt"), func([]byte) {}); err == nil {
		t.Error("missing file is no error")
	}
}
