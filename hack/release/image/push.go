// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// CheckPush returns an error if the registry cannot be reached, or refuses images of this name.
// Builds take minutes, which are lost then.
func CheckPush(tag name.Tag) error {
	if err := remote.CheckPushPermission(tag, authn.DefaultKeychain, remote.DefaultTransport); err != nil {
		return fmt.Errorf("images cannot be pushed to %s, and nothing was built: check the name of the registry, and log in, for example with docker login (%w)", tag.Repository, err)
	}
	return nil
}

// CheckReplace returns an error if the registry has another image of this name: a version that
// was published does not change, because clusters that run it would get another program when
// a Pod is created on another node.
func CheckReplace(ctx context.Context, image Named) error {
	found, err := published(ctx, image.Tag)
	if err != nil || found == nil {
		return err
	}
	digest, err := image.Index.Digest()
	if err == nil && found.Digest != digest {
		err = fmt.Errorf("%s exists with another content: it has digest %s, and %s was built. Choose another version, or delete the tag in the registry if nobody uses it", image.Tag, found.Digest, digest)
	}
	return err
}

// published returns the image of a name in its registry, or nil. It asks with the permission to
// push: some registries refuse those who may only pull to say that there is none.
func published(ctx context.Context, tag name.Tag) (*v1.Descriptor, error) {
	auth, err := authn.Resolve(ctx, authn.DefaultKeychain, tag.Repository)
	if err != nil {
		return nil, err
	}
	client, err := transport.NewWithContext(ctx, tag.Registry, auth, remote.DefaultTransport, []string{tag.Scope(transport.PushScope)})
	if err != nil {
		return nil, fmt.Errorf("look for %s: %w", tag, err)
	}
	found, err := remote.Head(tag, remote.WithContext(ctx), remote.WithTransport(client))
	var refused *transport.Error
	if errors.As(err, &refused) && refused.StatusCode == http.StatusNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for %s: %w", tag, err)
	}
	return found, nil
}

// Push pushes an image with all its platforms to the registry of its name, with the
// credentials that `docker login` or `podman login` stored.
func Push(ctx context.Context, image Named) error {
	if err := remote.WriteIndex(image.Tag, image.Index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return fmt.Errorf("push %s: %w", image.Tag, err)
	}
	return nil
}
