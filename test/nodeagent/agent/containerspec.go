// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/environment"
	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/images"
	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/sandbox"
	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/volumes"
)

// imageUser is the user of a container that must not run as root if the Pod does not
// set a user. Common base images have it.
const imageUser = 65532

// problem is why a container cannot run, with the reason that a kubelet would use.
type problem struct {
	reason string
	err    error
}

func (p *problem) Error() string { return p.err.Error() }
func (p *problem) Unwrap() error { return p.err }

// findImage returns the image of a container, or a problem if the container has nothing to
// run. An unknown image is one without an entry point, such as busybox, on the file system
// of the host.
func findImage(directory images.Directory, container *corev1.Container) (*images.Image, error) {
	image, err := directory.Find(container.Image)
	switch {
	case err != nil:
		return nil, &problem{"ErrImagePull", err}
	case image != nil:
		return image, nil
	case len(container.Command)+len(container.Args) > 0:
		return &images.Image{}, nil
	}
	return nil, &problem{"ErrImagePull", fmt.Errorf("image %q needs the program %q, which is not in the image directory %q, and the container has neither command nor args",
		container.Image, images.Name(container.Image), directory)}
}

// arguments returns the program of a container with its arguments, which replace those of
// its image: the command all of them, args the arguments.
func arguments(image *images.Image, container *corev1.Container, env map[string]string) []string {
	command, args := environment.ExpandAll(container.Command, env), environment.ExpandAll(container.Args, env)
	switch {
	case len(command) == 0 && len(args) == 0:
		return slices.Concat(image.Entrypoint, image.Args)
	case len(command) == 0:
		return slices.Concat(image.Entrypoint, args)
	}
	return slices.Concat(command, args)
}

// baseEnvironment returns the environment that every container of an image has.
func baseEnvironment(image *images.Image, directory images.Directory, hostname string, uid uint32) map[string]string {
	base := map[string]string{"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/", "HOSTNAME": hostname}
	if image.Root == "" && directory != "" {
		base["PATH"] = sandbox.ImagesPath + ":" + string(directory) + ":" + base["PATH"]
	}
	if uid == 0 {
		base["HOME"] = "/root"
	}
	for _, variable := range image.Env {
		name, value, _ := strings.Cut(variable, "=")
		base[name] = value
	}
	return base
}

// setUser sets the user of a container, which is that of its image before. Settings of the
// container have precedence over those of its Pod.
func setUser(process *sandbox.Process, pod *corev1.PodSecurityContext, container *corev1.SecurityContext) error {
	if pod == nil {
		pod = &corev1.PodSecurityContext{}
	}
	if container == nil {
		container = &corev1.SecurityContext{}
	}
	user := cmp.Or(container.RunAsUser, pod.RunAsUser)
	group := cmp.Or(container.RunAsGroup, pod.RunAsGroup)
	nonRoot := cmp.Or(container.RunAsNonRoot, pod.RunAsNonRoot)
	switch {
	case user != nil:
		process.UID = uint32(*user)
	case nonRoot != nil && *nonRoot && process.UID == 0:
		process.UID, process.GID = imageUser, imageUser
	}
	if nonRoot != nil && *nonRoot && process.UID == 0 {
		return fmt.Errorf("container has runAsNonRoot, but runAsUser is 0")
	}
	if group != nil {
		process.GID = uint32(*group)
	}
	for _, more := range pod.SupplementalGroups {
		process.Groups = append(process.Groups, uint32(more))
	}
	if pod.FSGroup != nil {
		process.Groups = append(process.Groups, uint32(*pod.FSGroup))
	}
	process.NoNewPrivileges = container.AllowPrivilegeEscalation != nil && !*container.AllowPrivilegeEscalation
	return nil
}

// mountsOf returns the mounts of a container, outer mounts before inner ones.
func mountsOf(container *corev1.Container, set *volumes.Set, env map[string]string) ([]sandbox.Mount, error) {
	var mounts []sandbox.Mount
	for _, mount := range container.VolumeMounts {
		subPath := mount.SubPath
		if mount.SubPathExpr != "" {
			subPath = environment.Expand(mount.SubPathExpr, env)
		}
		source, err := set.Path(mount.Name, subPath)
		if err != nil {
			return nil, err
		}
		mounts = append(mounts, sandbox.Mount{Source: source, Target: mount.MountPath, ReadOnly: mount.ReadOnly})
	}
	slices.SortStableFunc(mounts, func(a, b sandbox.Mount) int { return cmp.Compare(a.Target, b.Target) })
	return mounts, nil
}

// readOnlyRoot reports whether the root file system of a container is read-only.
func readOnlyRoot(container *corev1.Container) bool {
	context := container.SecurityContext
	return context != nil && context.ReadOnlyRootFilesystem != nil && *context.ReadOnlyRootFilesystem
}
