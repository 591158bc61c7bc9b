// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package program builds the programs of a release.
package program

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Builder builds programs of one module.
type Builder struct {
	// Dir is the directory of the module.
	Dir string
	// LDFlags are the flags of the linker, which set the version.
	LDFlags string
}

// Build builds a package as a static program for a platform. The same source and the same
// version of Go give the same file, wherever it is built.
func (b Builder) Build(ctx context.Context, pkg string, platform v1.Platform, file string) error {
	command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", b.LDFlags, "-o", file, pkg)
	command.Dir = b.Dir
	command.Env = append(os.Environ(),
		"GOOS="+platform.OS, "GOARCH="+platform.Architecture, "CGO_ENABLED=0",
		// What else of the environment ends up in the file.
		"GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOFIPS140=off", "GOFLAGS=-buildvcs=false", "GOWORK=off",
	)
	command.Stderr = os.Stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("go build %s for %s: %w", pkg, platform, err)
	}
	return nil
}
