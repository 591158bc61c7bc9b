// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

const mountinfo = `22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
23 22 0:5 / /proc rw,relatime - proc proc rw
24 22 0:6 / /dev rw - devtmpfs devtmpfs rw
25 24 0:7 / /dev/shm rw - tmpfs tmpfs rw
26 22 0:8 / /srv/with\040space rw - ext4 /dev/vdb rw
27 22 0:8 / /srv/with\040space rw - ext4 /dev/vdb rw
28 22 0:9 /hosts /etc/hosts rw - ext4 /dev/vdc rw
29 22 0:9 / /development ro - ext4 /dev/vdd ro
30 22 0:9 / /state/pods/1 rw - tmpfs tmpfs rw
`

func TestHostMounts(t *testing.T) {
	got := hostMounts(mountinfo, []string{"/proc", "/dev", "/etc/hosts", "/state"})
	want := []string{"/srv/with space", "/development"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestWithin(t *testing.T) {
	for _, test := range []struct {
		path, parent string
		want         bool
	}{
		{"/dev", "/dev", true},
		{"/dev/shm", "/dev", true},
		{"/development", "/dev", false},
		{"/", "/dev", false},
		{"/dev", "/", true},
	} {
		if got := within(test.path, test.parent); got != test.want {
			t.Errorf("%s in %s: got %v", test.path, test.parent, got)
		}
	}
}
