// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
)

func testSet(t *testing.T) (*Set, *fake.Clientset) {
	t.Helper()
	client := fake.NewClientset(
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "space", Name: "config"}, Data: map[string]string{"k": "v", "l": "w"}, BinaryData: map[string][]byte{"b": {0}}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "space", Name: "secret"}, Data: map[string][]byte{"password": []byte("p")}},
		&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "space", Name: "claim", UID: "first"}},
	)
	dir := t.TempDir()
	manager := &Manager{Client: client, Claims: filepath.Join(dir, "claims")}
	return manager.NewSet(filepath.Join(dir, "volumes")), client
}

func podWith(volumes ...corev1.Volume) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "space", Name: "pod", UID: "1", Labels: map[string]string{"a": "b"}},
		Spec:       corev1.PodSpec{Volumes: volumes, ServiceAccountName: "account"},
	}
}

func reference(name string) corev1.LocalObjectReference {
	return corev1.LocalObjectReference{Name: name}
}

func sync(t *testing.T, set *Set, pod *corev1.Pod) time.Time {
	t.Helper()
	renew, err := set.Sync(t.Context(), pod)
	if err != nil {
		t.Fatal(err)
	}
	return renew
}

func path(t *testing.T, set *Set, volume string) string {
	t.Helper()
	path, err := set.Path(volume, "")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestContentFromTheAPI(t *testing.T) {
	set, client := testSet(t)
	pod := podWith(
		corev1.Volume{Name: "c", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: reference("config")}}},
		corev1.Volume{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "secret"}}},
		corev1.Volume{Name: "none", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "absent", Optional: ptr.To(true)}}},
		corev1.Volume{Name: "p", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: reference("config"), Items: []corev1.KeyToPath{{Key: "k", Path: "deep/k"}}}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{Path: "labels", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels"}}}}},
		}}}},
	)
	sync(t, set, pod)
	for volume, want := range map[string]map[string]string{
		"c":    {"k": "v", "l": "w", "b": "\x00"},
		"s":    {"password": "p"},
		"none": {},
		"p":    {"deep/k": "v", "labels": `a="b"`},
	} {
		if diff := cmp.Diff(want, visible(t, path(t, set, volume))); diff != "" {
			t.Errorf("%s: %s", volume, diff)
		}
	}

	changed := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "space", Name: "config"}, Data: map[string]string{"k": "changed"}}
	if _, err := client.CoreV1().ConfigMaps("space").Update(t.Context(), changed, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod.Labels["a"] = "c"
	sync(t, set, pod)
	if diff := cmp.Diff(map[string]string{"deep/k": "changed", "labels": `a="c"`}, visible(t, path(t, set, "p"))); diff != "" {
		t.Error(diff)
	}
}

func TestMissingSources(t *testing.T) {
	for want, source := range map[string]corev1.VolumeSource{
		`"gone"`: {ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: reference("gone")}},
		`no key`: {ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: reference("config"), Items: []corev1.KeyToPath{{Key: "x", Path: "x"}}}},
		`"lost"`: {PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "lost"}},
		`kind`:   {NFS: &corev1.NFSVolumeSource{}},
		`/no`:    {HostPath: &corev1.HostPathVolumeSource{Path: "/no/such/path"}},
		`type`:   {HostPath: &corev1.HostPathVolumeSource{Path: "/etc", Type: ptr.To(corev1.HostPathFile)}},
	} {
		set, _ := testSet(t)
		_, err := set.Sync(t.Context(), podWith(corev1.Volume{Name: "v", VolumeSource: source}))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "volume v") {
			t.Errorf("%s: got %v", want, err)
		}
		if _, err := set.Path("v", ""); err == nil {
			t.Errorf("%s: the volume has a path", want)
		}
	}
}

func TestTokensAreRenewedInTime(t *testing.T) {
	set, client := testSet(t)
	requests := 0
	client.PrependReactor("create", "serviceaccounts", func(action clienttesting.Action) (bool, runtime.Object, error) {
		requests++
		request := action.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenRequest)
		if ref := request.Spec.BoundObjectRef; ref == nil || ref.Kind != "Pod" || ref.UID != "1" {
			t.Errorf("bound to %v", ref)
		}
		life := time.Duration(*request.Spec.ExpirationSeconds) * time.Second
		return true, &authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{
			Token: strings.Repeat("t", requests), ExpirationTimestamp: metav1.NewTime(time.Now().Add(life)),
		}}, nil
	})
	pod := podWith(corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: ptr.To[int64](1000)}},
	}}}})
	renew := sync(t, set, pod)
	if left := time.Until(renew); left < 790*time.Second || left > 810*time.Second {
		t.Errorf("renewed in %v", left)
	}
	sync(t, set, pod)
	if requests != 1 {
		t.Errorf("asked %d times", requests)
	}
	for key, token := range set.tokens {
		token.renew = time.Now()
		set.tokens[key] = token
	}
	sync(t, set, pod)
	if data, err := os.ReadFile(filepath.Join(path(t, set, "v"), "token")); err != nil || string(data) != "tt" {
		t.Errorf("%q, %v", data, err)
	}
}

func TestOtherVolumes(t *testing.T) {
	set, _ := testSet(t)
	host := t.TempDir()
	pod := podWith(
		corev1.Volume{Name: "empty", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		corev1.Volume{Name: "claim", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"}}},
		corev1.Volume{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: filepath.Join(host, "new"), Type: ptr.To(corev1.HostPathDirectoryOrCreate)}}},
	)
	sync(t, set, pod)
	kept := map[string]bool{"empty": false, "claim": true, "host": true}
	paths := map[string]string{}
	for volume := range kept {
		paths[volume] = path(t, set, volume)
		if err := os.WriteFile(filepath.Join(paths[volume], "file"), nil, 0o644); err != nil {
			t.Error(err)
		}
	}
	sync(t, set, pod)
	if err := set.Remove(); err != nil {
		t.Fatal(err)
	}
	for volume, want := range kept {
		if _, err := os.Stat(filepath.Join(paths[volume], "file")); (err == nil) != want {
			t.Errorf("%s: %v", volume, err)
		}
	}
}

func TestClaimOfTheSameNameHasAnotherVolume(t *testing.T) {
	first, client := testSet(t)
	pod := podWith(corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"}}})
	sync(t, first, pod)
	if err := os.WriteFile(filepath.Join(path(t, first, "v"), "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	again := first.manager.NewSet(first.dir)
	sync(t, again, pod)
	if path(t, again, "v") != path(t, first, "v") {
		t.Errorf("volume is %s, was %s", path(t, again, "v"), path(t, first, "v"))
	}
	claims := client.CoreV1().PersistentVolumeClaims("space")
	if err := claims.Delete(t.Context(), "claim", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := claims.Create(t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "claim", UID: "second"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	second := first.manager.NewSet(first.dir)
	sync(t, second, pod)
	if files, err := os.ReadDir(path(t, second, "v")); err != nil || len(files) > 0 {
		t.Errorf("new volume has %v, %v", files, err)
	}
	if _, err := os.Stat(path(t, first, "v")); !os.IsNotExist(err) {
		t.Errorf("volume of the deleted claim: %v", err)
	}
}

func TestMemoryIsUnmounted(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("mounting requires root")
	}
	set, _ := testSet(t)
	pod := podWith(corev1.Volume{Name: "m", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}})
	if _, err := set.Sync(context.Background(), pod); err != nil {
		t.Fatal(err)
	}
	mounts := func() string {
		data, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	if !strings.Contains(mounts(), set.dir) {
		t.Error("tmpfs is not mounted")
	}
	if err := set.Remove(); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(mounts(), set.dir) {
		t.Error("tmpfs is still mounted")
	}
}
