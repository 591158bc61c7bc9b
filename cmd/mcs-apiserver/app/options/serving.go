// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/klog/v2"
)

const (
	defaultPort = 6443
	// certificateTimeout is how long to wait for the serving certificate from
	// mcs-controller, which starts at the same time.
	certificateTimeout = 2 * time.Minute
)

// awaitCertificate waits for the files of the serving certificate, which
// mcs-controller writes to a shared volume. The library reloads them when they
// change later.
func awaitCertificate(ctx context.Context, serving *genericoptions.SecureServingOptionsWithLoopback) error {
	pair := serving.ServerCert.CertKey
	logged := false
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, certificateTimeout, true, func(context.Context) (bool, error) {
		for _, file := range []string{pair.CertFile, pair.KeyFile} {
			if file == "" {
				continue
			}
			switch _, err := os.Stat(file); {
			case errors.Is(err, os.ErrNotExist):
				if !logged {
					klog.FromContext(ctx).Info("Waiting for mcs-controller to write the serving certificate", "file", file)
					logged = true
				}
				return false, nil
			case err != nil:
				return false, err
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("wait for mcs-controller to write the serving certificate %s and its key %s: %w", pair.CertFile, pair.KeyFile, err)
	}
	return nil
}
