// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/netns"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/repository"
)

// Main is the TestMain of a package whose tests share a fleet. It does not
// return. Root and Dir of the Config have defaults. Logs are kept if a test
// fails.
func Main(m *testing.M, shared **Fleet, config Config) {
	code, err := run(m, shared, config)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M, shared **Fleet, config Config) (code int, err error) {
	if err := netns.Enter(); err != nil {
		return 1, err
	}
	if config.Root == "" {
		if config.Root, err = repository.Root(); err != nil {
			return 1, err
		}
	}
	if config.Dir == "" {
		if config.Dir, err = os.MkdirTemp("", "mcs-fleet-"); err != nil {
			return 1, err
		}
	}
	defer func() {
		if code == 0 && err == nil {
			err = os.RemoveAll(config.Dir)
		} else {
			fmt.Fprintln(os.Stderr, "component logs are in", config.Dir)
		}
	}()
	if *shared, err = Start(context.Background(), config); err != nil {
		return 1, err
	}
	code = m.Run()
	return code, (*shared).Stop()
}
