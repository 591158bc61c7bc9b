// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/images"
	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/sandbox"
	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/volumes"
)

func TestArguments(t *testing.T) {
	env := map[string]string{"PORT": "80"}
	foo := &images.Image{Entrypoint: []string{"foo"}, Args: []string{"--help"}}
	for name, test := range map[string]struct {
		image     *images.Image
		container corev1.Container
		want      []string
	}{
		"image":            {foo, corev1.Container{}, []string{"foo", "--help"}},
		"image, arguments": {foo, corev1.Container{Args: []string{"--port=$(PORT)"}}, []string{"foo", "--port=80"}},
		"arguments only":   {&images.Image{}, corev1.Container{Args: []string{"sh", "-c", "echo $(PORT)"}}, []string{"sh", "-c", "echo 80"}},
		"command":          {foo, corev1.Container{Command: []string{"bar", "$(PORT)"}, Args: []string{"$$(PORT)"}}, []string{"bar", "80", "$(PORT)"}},
		"command only":     {foo, corev1.Container{Command: []string{"bar"}}, []string{"bar"}},
	} {
		if diff := cmp.Diff(test.want, arguments(test.image, &test.container, env)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestUnknownImageNeedsACommand(t *testing.T) {
	if _, err := findImage(images.Directory(t.TempDir()), &corev1.Container{Image: "foo", Command: []string{"sh"}}); err != nil {
		t.Error(err)
	}
	if _, err := findImage(images.Directory(t.TempDir()), &corev1.Container{Image: "foo", Args: []string{"sh"}}); err != nil {
		t.Error(err)
	}
	_, err := findImage(images.Directory(t.TempDir()), &corev1.Container{Image: "x/foo:v1"})
	var known *problem
	if !errors.As(err, &known) || known.reason != "ErrImagePull" || !strings.Contains(err.Error(), `"x/foo:v1"`) || !strings.Contains(err.Error(), `"foo"`) {
		t.Errorf("got %v", err)
	}
}

func TestBrokenLayoutIsAProblem(t *testing.T) {
	directory := t.TempDir()
	if err := os.WriteFile(filepath.Join(directory, "index.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := findImage(images.Directory(directory), &corev1.Container{Image: "foo", Command: []string{"sh"}})
	var known *problem
	if !errors.As(err, &known) || known.reason != "ErrImagePull" {
		t.Errorf("got %v", err)
	}
}

func TestEnvironmentOfAnImage(t *testing.T) {
	image := &images.Image{Root: "/unpacked", Env: []string{"PATH=/usr/local/bin", "COLOR=blue=green"}}
	want := map[string]string{"PATH": "/usr/local/bin", "COLOR": "blue=green", "HOME": "/", "HOSTNAME": "pod"}
	if diff := cmp.Diff(want, baseEnvironment(image, "/images", "pod", 65532)); diff != "" {
		t.Error(diff)
	}
	program := baseEnvironment(&images.Image{}, "/some/images", "pod", 0)
	if !strings.HasPrefix(program["PATH"], "/images:/some/images:") || program["HOME"] != "/root" {
		t.Errorf("got %v", program)
	}
}

func TestImageHasAUser(t *testing.T) {
	process := sandbox.Process{UID: 1000, GID: 2000}
	if err := setUser(&process, &corev1.PodSecurityContext{RunAsNonRoot: ptr.To(true)}, nil); err != nil || process.UID != 1000 || process.GID != 2000 {
		t.Errorf("user is %d:%d (%v)", process.UID, process.GID, err)
	}
}

func TestSetUser(t *testing.T) {
	for name, test := range map[string]struct {
		pod       *corev1.PodSecurityContext
		container *corev1.SecurityContext
		want      sandbox.Process
		fails     bool
	}{
		"root": {nil, nil, sandbox.Process{}, false},
		"set by the Pod": {
			&corev1.PodSecurityContext{RunAsUser: ptr.To[int64](1000), RunAsGroup: ptr.To[int64](2000), FSGroup: ptr.To[int64](3000), SupplementalGroups: []int64{4000}},
			nil, sandbox.Process{UID: 1000, GID: 2000, Groups: []uint32{4000, 3000}}, false,
		},
		"set by the container": {
			&corev1.PodSecurityContext{RunAsUser: ptr.To[int64](1000), RunAsGroup: ptr.To[int64](2000)},
			&corev1.SecurityContext{RunAsUser: ptr.To[int64](0), RunAsGroup: ptr.To[int64](5), AllowPrivilegeEscalation: ptr.To(false)},
			sandbox.Process{UID: 0, GID: 5, NoNewPrivileges: true}, false,
		},
		"user other than root": {
			&corev1.PodSecurityContext{RunAsNonRoot: ptr.To(true)}, nil,
			sandbox.Process{UID: imageUser, GID: imageUser}, false,
		},
		"root, although not allowed": {
			&corev1.PodSecurityContext{RunAsNonRoot: ptr.To(true)}, &corev1.SecurityContext{RunAsUser: ptr.To[int64](0)},
			sandbox.Process{}, true,
		},
	} {
		got := sandbox.Process{}
		if err := setUser(&got, test.pod, test.container); (err != nil) != test.fails {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestMountsOf(t *testing.T) {
	dir := t.TempDir()
	set := (&volumes.Manager{Client: fake.NewClientset()}).NewSet(dir)
	if _, err := set.Sync(t.Context(), &corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}}}); err != nil {
		t.Fatal(err)
	}
	container := &corev1.Container{VolumeMounts: []corev1.VolumeMount{
		{Name: "v", MountPath: "/a/b", SubPathExpr: "$(NAME)/x"},
		{Name: "v", MountPath: "/a", ReadOnly: true},
	}}
	got, err := mountsOf(container, set, map[string]string{"NAME": "pod"})
	want := []sandbox.Mount{{Source: dir + "/v", Target: "/a", ReadOnly: true}, {Source: dir + "/v/pod/x", Target: "/a/b"}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	container.VolumeMounts[0].Name = "unknown"
	if _, err := mountsOf(container, set, nil); err == nil {
		t.Error("an unknown volume was mounted")
	}
}

func TestReferences(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{EnvFrom: []corev1.EnvFromSource{
			{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "a"}}},
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "b"}}},
		}}},
		Containers: []corev1.Container{{Env: []corev1.EnvVar{
			{Name: "PLAIN"},
			{ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}}}},
			{ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "d"}}}},
		}}},
		Volumes: []corev1.Volume{
			{VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "e"}}}},
			{VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "f"}}},
			{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "g"}}},
				{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "h"}}},
			}}}},
			{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		},
	}}
	want := map[object]bool{
		{configMaps, "a"}: true, {configMaps, "c"}: true, {configMaps, "e"}: true, {configMaps, "g"}: true,
		{secrets, "b"}: true, {secrets, "d"}: true, {secrets, "f"}: true, {secrets, "h"}: true,
	}
	if diff := cmp.Diff(want, references(pod)); diff != "" {
		t.Error(diff)
	}
}
