// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package program

import (
	"debug/elf"
	"fmt"
)

// CheckStatic returns an error if a Linux program needs a dynamic linker, which images do
// not contain.
func CheckStatic(file string) error {
	program, err := elf.Open(file)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	defer func() { _ = program.Close() }() // it was only read
	for _, header := range program.Progs {
		if header.Type == elf.PT_INTERP || header.Type == elf.PT_DYNAMIC {
			return fmt.Errorf("%s is linked dynamically (%s): build it with CGO_ENABLED=0", file, header.Type)
		}
	}
	return nil
}
