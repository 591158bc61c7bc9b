// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package program

import (
	"bytes"
	"debug/elf"
	"debug/macho"
	"debug/pe"
	"errors"
)

// Platform returns the platform of a program, such as linux/amd64, by its headers.
func Platform(data []byte) (string, error) {
	reader := bytes.NewReader(data)
	if file, err := elf.NewFile(reader); err == nil {
		return known("linux", map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64"}[file.Machine])
	}
	if file, err := macho.NewFile(reader); err == nil {
		return known("darwin", map[macho.Cpu]string{macho.CpuAmd64: "amd64", macho.CpuArm64: "arm64"}[file.Cpu])
	}
	if file, err := pe.NewFile(reader); err == nil {
		return known("windows", map[uint16]string{pe.IMAGE_FILE_MACHINE_AMD64: "amd64", pe.IMAGE_FILE_MACHINE_ARM64: "arm64"}[file.Machine])
	}
	return "", errors.New("file is not a program for Linux, macOS or Windows")
}

func known(system, architecture string) (string, error) {
	if architecture == "" {
		return "", errors.New("program for " + system + " is for another architecture than amd64 and arm64")
	}
	return system + "/" + architecture, nil
}
