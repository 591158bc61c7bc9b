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
	// certificateTimeout is how long mcs-controller, started at the same
	// moment, may take to write the serving certificate.
	certificateTimeout = 2 * time.Minute
)

// awaitCertificate waits for the files of the serving certificate.
// mcs-controller writes them into a volume that both share, and it may be the
// slower one to start. Later changes are followed by the library.
func awaitCertificate(ctx context.Context, serving *genericoptions.SecureServingOptionsWithLoopback) error {
	pair := serving.ServerCert.CertKey
	said := false
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, certificateTimeout, true, func(context.Context) (bool, error) {
		for _, file := range []string{pair.CertFile, pair.KeyFile} {
			if file == "" {
				continue
			}
			switch _, err := os.Stat(file); {
			case errors.Is(err, os.ErrNotExist):
				if !said {
					klog.FromContext(ctx).Info("Waiting for the serving certificate that mcs-controller writes", "file", file)
					said = true
				}
				return false, nil
			case err != nil:
				return false, err
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the serving certificate %s and its key %s, which mcs-controller writes: %w", pair.CertFile, pair.KeyFile, err)
	}
	return nil
}
