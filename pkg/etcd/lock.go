// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// lockTimeout is how long a process waits for the end of its predecessor.
var lockTimeout = startTimeout

// occupy waits until no other process uses a prepared data directory, such as that of a Pod
// with the same volume, and removes the socket that such a process left behind: it would
// appear to be in use. The directory is occupied until the returned file is closed. etcd
// itself locks its database only after it has taken over the socket.
func occupy(ctx context.Context, dataDir string) (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(privateDir(dataDir), "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock data directory: %w", err)
	}
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, lockTimeout, true, func(context.Context) (bool, error) {
		err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return false, nil
		}
		return err == nil, err
	})
	if wait.Interrupted(err) {
		err = errors.New("another process uses it; run only one replica with --storage=embedded")
	}
	if err == nil {
		if err = os.Remove(socketPath(dataDir)); errors.Is(err, os.ErrNotExist) {
			err = nil
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock data directory %s: %w", dataDir, err), lock.Close())
	}
	return lock, nil
}
