// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"fmt"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// CheckPush returns an error if the registry cannot be reached, or refuses images of this name.
// Builds take minutes, which are lost then.
func CheckPush(tag name.Tag) error {
	if err := remote.CheckPushPermission(tag, authn.DefaultKeychain, remote.DefaultTransport); err != nil {
		return fmt.Errorf("images cannot be pushed to %s, and nothing was built: check the name of the registry, and log in, for example with docker login (%w)", tag.Repository, err)
	}
	return nil
}

// Push pushes an image with all its platforms to the registry of its name, with the
// credentials that `docker login` or `podman login` stored.
func Push(ctx context.Context, image Named) error {
	if err := remote.WriteIndex(image.Tag, image.Index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return fmt.Errorf("push %s: %w", image.Tag, err)
	}
	return nil
}
