// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"errors"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// R148: every combination of storage flags that has no meaning is rejected with what
// to do.
func TestStorageFlagsThatHaveNoEffectAreRejected(t *testing.T) {
	for flags, want := range map[string]string{
		"":                          "",
		"--storage=cluster":         "",
		"--storage-namespace=state": "",
		"--storage=embedded":        "",
		"--storage=cluster --storage-namespace=state --accept-storage":                              "",
		"--storage=cluster --delete-collection-workers=2 --enable-garbage-collector=false":          "",
		"--storage=etcd --etcd-servers=http://127.0.0.1:2379 --etcd-prefix=/mcs --watch-cache=true": "",
		"--storage=embedded --data-dir=/data --etcd-compaction-interval=1m":                         "",

		"--storage=cluster --migrate-from=embedded --data-dir=/data":                     "",
		"--storage=embedded --migrate-from=etcd --etcd-servers=http://127.0.0.1:2379":    "",
		"--storage=etcd --etcd-servers=http://127.0.0.1:2379 --migrate-from=cluster":     "",
		"--storage=etcd --etcd-servers=http://127.0.0.1:2379 --migrate-from=file":        `--migrate-from "file": must be cluster or etcd or embedded`,
		"--storage=cluster --migrate-from=cluster":                                       "must not be the same as --storage",
		"--storage=cluster --migrate-from=etcd":                                          "--migrate-from=etcd requires --etcd-servers",
		"--storage=cluster --migrate-from=embedded --accept-storage":                     "only one can be set",
		"--storage=cluster --migrate-from=embedded --etcd-servers=http://127.0.0.1:2379": "--etcd-servers requires --storage=etcd",
		"--storage-namespace=default":                                                    `--storage-namespace "default": must be a namespace that is used for nothing else, such as mcs-storage`,
		"--storage=file":                                                                 `--storage "file": must be cluster or etcd or embedded`,
		"--storage=etcd":                                                                 "--storage=etcd requires --etcd-servers",
		"--data-dir=/data":                                                               "--data-dir requires --storage=embedded, but --storage is cluster: remove the flag, or change --storage",
		"--storage=cluster --etcd-servers=http://127.0.0.1:2379":                         "--etcd-servers requires --storage=etcd, but --storage is cluster: remove the flag, or change --storage",
		"--storage=embedded --etcd-servers=http://127.0.0.1:2379":                        "--etcd-servers requires --storage=etcd, but --storage is embedded",
		"--storage=cluster --data-dir=/data":                                             "--data-dir requires --storage=embedded",
		"--storage=cluster --etcd-prefix=/mcs":                                           "--etcd-prefix requires --storage=etcd or embedded",
		"--storage=cluster --encryption-provider-config=/file":                           "--encryption-provider-config requires --storage=etcd or embedded",
		"--storage=embedded --storage-namespace=state":                                   "--storage-namespace requires --storage=cluster",
		"--storage=cluster --storage-namespace=no/name":                                  `--storage-namespace "no/name"`,
		"--storage=embedded --data-dir=relative":                                         "--data-dir",
	} {
		options := New()
		set := pflag.NewFlagSet("test", pflag.ContinueOnError)
		for _, section := range options.Flags().FlagSets {
			set.AddFlagSet(section)
		}
		if err := set.Parse(strings.Fields(flags)); err != nil {
			t.Fatalf("%s: %v", flags, err)
		}
		options.Storage.complete(options.Recommended)
		err := errors.Join(append(options.Storage.validate(), options.Recommended.Etcd.Validate()...)...)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", flags, err, want)
		}
	}
}
