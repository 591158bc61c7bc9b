// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/environment"
	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/etcfiles"
	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/sandbox"
)

// buildSpec returns the complete specification of a container, whose directory it creates.
// The Pod has its addresses.
func buildSpec(ctx context.Context, setup *podSetup, pod *corev1.Pod, container *corev1.Container) (*sandbox.Spec, error) {
	image, err := findImage(setup.services.images, container)
	if err != nil {
		return nil, err
	}
	spec := &sandbox.Spec{Image: image.Root, ReadOnlyRoot: readOnlyRoot(container), Net: setup.sandbox.Net, UTS: setup.sandbox.UTS}
	spec.Process.UID, spec.Process.GID = image.UID, image.GID
	if err := setUser(&spec.Process, pod.Spec.SecurityContext, container.SecurityContext); err != nil {
		return nil, err
	}
	base := baseEnvironment(image, setup.services.images, setup.hostname, spec.Process.UID)
	kubernetes, err := setup.services.client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	for name, value := range environment.ServiceVariables(kubernetes) {
		base[name] = value
	}
	env, err := setup.services.environment.Build(ctx, pod, container, base)
	if err != nil {
		return nil, err
	}
	spec.Process.Args, spec.Process.Env = arguments(image, container, env), environment.List(env)
	spec.Process.Dir = cmp.Or(container.WorkingDir, image.Dir, "/")
	if spec.Mounts, err = mountsOf(container, setup.volumes, env); err != nil {
		return nil, err
	}
	spec.Files = map[string]string{
		"/etc/hostname":    setup.hostname + "\n",
		"/etc/hosts":       etcfiles.Hosts(pod, setup.hostname, setup.addresses, setup.services.dns.Domain),
		"/etc/resolv.conf": setup.services.dns.Resolv(pod),
	}
	return spec, makeStage(spec, filepath.Join(setup.dir, "containers", container.Name), container)
}

// makeStage creates the directory of the container and its termination message file,
// which any user may write.
func makeStage(spec *sandbox.Spec, dir string, container *corev1.Container) error {
	spec.Stage = dir
	if err := os.MkdirAll(spec.Stage, 0o755); err != nil {
		return err
	}
	file := messageFile(spec.Stage)
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		return err
	}
	if container.TerminationMessagePath != "" {
		spec.Mounts = append(spec.Mounts, sandbox.Mount{Source: file, Target: container.TerminationMessagePath})
	}
	return os.Chmod(file, 0o666)
}
