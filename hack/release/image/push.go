// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"fmt"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Push pushes an image with all its platforms to the registry of its name, with the
// credentials that `docker login` or `podman login` stored.
func Push(ctx context.Context, image Named) error {
	if err := remote.WriteIndex(image.Tag, image.Index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return fmt.Errorf("push %s: %w", image.Tag, err)
	}
	return nil
}
