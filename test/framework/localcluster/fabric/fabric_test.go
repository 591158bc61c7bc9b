// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Linux removes the interfaces of a removed namespace a while later: before a slow machine does.
func TestSlowMachineRemovesAFabric(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can create network namespaces")
	}
	ip, err := exec.LookPath("ip")
	if err != nil {
		t.Fatal(err)
	}
	slow := fmt.Sprintf("#!/bin/sh\nif [ \"$1 $2\" = \"link delete\" ]; then sleep 0.5; fi\nexec %s \"$@\"\n", ip)
	directory := t.TempDir()
	if err := os.WriteFile(filepath.Join(directory, "ip"), []byte(slow), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", directory+":"+os.Getenv("PATH"))

	unlock, err := Lock()
	if err != nil {
		t.Fatal(err)
	}
	subnet, err := FreeSubnet()
	if err != nil {
		t.Fatal(err)
	}
	fabric := &Fabric{ID: fmt.Sprintf("t%x", os.Getpid()), Subnet: subnet}
	if err := fabric.Build(nil); err != nil {
		t.Errorf("build: %v", err)
	}
	unlock()
	if err := fabric.Remove(); err != nil {
		t.Errorf("remove: %v", err)
	}
	if left, err := fabric.Leftovers(); err != nil || len(left) > 0 {
		t.Errorf("left: %v, error: %v", left, err)
	}
}
