// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Command release makes what a release consists of, in parts: `make images` and `make
// release` run it. It needs the go command, and git for the release notes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// source is the repository.
	source  = "https://github.com/mcs-apiserver/mcs-apiserver"
	license = "Apache-2.0"
)

// release is what all parts need to know.
type release struct {
	// root is the directory of the repository, and dist that of the results.
	root, dist        string
	version, revision string
	// time is that of the commit: nothing depends on the time of the build.
	time    time.Time
	ldflags string
	// prefix is that of the names of images: the registry that they are pushed to.
	prefix string
	// platforms are those of images.
	platforms []string
	// progress is where is said what is going on.
	progress io.Writer
}

// say says what is going on: a build takes minutes.
func (r *release) say(format string, args ...any) { fmt.Fprintf(r.progress, format+"\n", args...) }

// parts are the parts of a release by the name of their command.
var parts = map[string]func(*release, context.Context) error{
	"images":    (*release).images,
	"manifests": (*release).manifests,
	"plugins":   (*release).plugins,
	"notes":     (*release).notes,
	"chart":     (*release).chart,
	"checksums": (*release).checksums,
	"check":     (*release).check,
	"push":      (*release).pushImages,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	r := &release{progress: os.Stderr}
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.StringVar(&r.root, "root", ".", "directory of the repository")
	flags.StringVar(&r.dist, "dist", "dist", "directory of the results")
	flags.StringVar(&r.version, "version", "", "version of the release")
	flags.StringVar(&r.revision, "revision", "", "commit of the release")
	flags.StringVar(&r.ldflags, "ldflags", "", "flags of the linker")
	flags.StringVar(&r.prefix, "prefix", "", "registry and path of the names of images")
	platforms := flags.String("platforms", "linux/amd64,linux/arm64", "platforms of images")
	flags.Usage = func() {
		fmt.Fprintf(flags.Output(), "Usage: release [FLAGS] PART...\nParts: %s\n", strings.Join(slices.Sorted(maps.Keys(parts)), ", "))
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	r.platforms = strings.Split(*platforms, ",")
	if err := r.complete(os.Getenv("SOURCE_DATE_EPOCH")); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New("name the parts to make")
	}
	if slices.Contains(flags.Args(), "push") {
		if r.prefix == "" {
			return errors.New("the part push requires -prefix, the registry to push to")
		}
		if err := r.checkPush(); err != nil {
			return err
		}
	}
	for _, name := range flags.Args() {
		part, ok := parts[name]
		if !ok {
			return fmt.Errorf("unknown part %q", name)
		}
		if err := part(r, ctx); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// complete validates what flags and the environment say.
func (r *release) complete(epoch string) error {
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH must be the time of the commit in seconds since 1970: %w", err)
	}
	r.time = time.Unix(seconds, 0).UTC()
	if r.version == "" {
		return errors.New("-version is required")
	}
	return os.MkdirAll(r.dist, 0o755)
}
