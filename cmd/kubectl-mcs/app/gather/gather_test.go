// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package gather

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
)

// object returns an object of any kind with credentials in all places that users can write.
func object(kind, namespace, name string, fields map[string]any) map[string]any {
	metadata := map[string]any{
		"name": name, "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": []any{map[string]any{"manager": "hushhush-manager"}},
		"annotations": map[string]any{lastApplied: `{"kind":"Secret","data":{"x":"hushhush-applied"}}`, "note": kubeconfig, "key": privateKey},
		"labels":      map[string]any{"app.kubernetes.io/name": "mcs-apiserver"},
	}
	if namespace != "" {
		metadata["namespace"] = namespace
	}
	all := map[string]any{"apiVersion": "v1", "kind": kind, "metadata": metadata}
	for key, value := range fields {
		all[key] = value
	}
	return all
}

// site is a cluster that is full of secrets.
type site struct {
	*httptest.Server
	mu        sync.Mutex
	requested []string
	// refuse returns an error for a path, if any.
	refuse func(path string) *apierrors.StatusError
	log    string
}

func newSite(t *testing.T) *site {
	t.Helper()
	token := token()
	s := &site{log: "I1118 starting\nsent Authorization: Bearer " + token + "\n" + privateKey + "\nthe last line\n"}
	data := base64.StdEncoding.EncodeToString([]byte("hushhush-data"))
	podSpec := map[string]any{"containers": []any{
		map[string]any{"name": "mcs-apiserver", "image": "mcs-apiserver:v1", "env": []any{map[string]any{"name": "ETCD_PASSWORD", "value": "hushhush-env"}}, "args": []any{"--token=hushhush-arg", "--storage-namespace=stored"}},
		map[string]any{"name": "mcs-controller", "image": "mcs-controller:v1"},
	}}
	lists := map[string][]any{
		"/api/v1/namespaces/system/secrets":    {object("Secret", "system", "member-west", map[string]any{"type": "clusterset.mcs-apiserver.io/member", "data": map[string]any{"kubeconfig": data}, "stringData": map[string]any{"x": "hushhush"}})},
		"/api/v1/namespaces/system/configmaps": {object("ConfigMap", "system", "other", map[string]any{"data": map[string]any{"x": "hushhush-configmap"}, "binaryData": map[string]any{"y": data}}), object("ConfigMap", "system", "mcs-apiserver-detached", map[string]any{"data": map[string]any{"reason": "maintenance, token: hushhush"}})},
		"/api/v1/namespaces/stored/configmaps": {object("ConfigMap", "stored", "wrapped", map[string]any{"data": map[string]any{"object": "hushhush-stored"}})},
		"/api/v1/namespaces/system/events":     {object("Event", "system", "event", map[string]any{"message": "failed with " + token})},
		"/api/v1/namespaces/system/pods": {object("Pod", "system", "mcs-apiserver-1", map[string]any{"spec": podSpec, "status": map[string]any{"containerStatuses": []any{
			map[string]any{"name": "mcs-apiserver", "restartCount": 1}, map[string]any{"name": "mcs-controller", "restartCount": 0},
		}}})},
		"/apis/apps/v1/deployments":                   {object("Deployment", "aaa-tenant", "mcs-apiserver", map[string]any{"spec": map[string]any{"template": map[string]any{"spec": podSpec}}})},
		"/apis/apps/v1/namespaces/system/deployments": {object("Deployment", "system", "mcs-apiserver", map[string]any{"spec": map[string]any{"template": map[string]any{"spec": podSpec}}})},
		"/apis/clusterset.mcs-apiserver.io/v1alpha1/members": {object("Member", "", "east", map[string]any{"status": map[string]any{"state": "Local", "clusterID": "east", "clusterSet": "production",
			"conditions": []any{map[string]any{"type": "Reachable", "status": "False", "message": "rejected " + token, "lastTransitionTime": "2026-01-01T00:00:00Z"}}}})},
		"/apis/rbac.authorization.k8s.io/v1/clusterroles": {object("ClusterRole", "", "mcs-apiserver", nil), map[string]any{"metadata": map[string]any{"name": "of-somebody-else"}}},
	}
	lists["/apis/apiregistration.k8s.io/v1/apiservices"] = []any{object("APIService", "", "v1alpha1.clusterset.mcs-apiserver.io", map[string]any{"spec": map[string]any{"service": map[string]any{"name": "mcs-apiserver", "namespace": "system"}}})}
	objects := map[string]any{
		"/version": map[string]any{"gitVersion": "v1.36.3"},
		"/api/v1/namespaces/kube-system/configmaps/coredns-custom": object("ConfigMap", "kube-system", "coredns-custom", map[string]any{"data": map[string]any{"mcs.server": "clusterset.local {\n  netbox { token hushhush-custom }\n}"}}),
		"/api/v1/namespaces/kube-system/configmaps/coredns":        object("ConfigMap", "kube-system", "coredns", map[string]any{"data": map[string]any{"Corefile": ".:53 {\n  route53 x {\n    aws_access_key id hushhush-corefile\n  }\n  ready\n}", "other": "hushhush-zone"}}),
		"/api/v1/namespaces/kube-system/configmaps/kube-proxy":     object("ConfigMap", "kube-system", "kube-proxy", map[string]any{"data": map[string]any{"config.conf": "mode: nftables\n", "kubeconfig.conf": kubeconfig}}),
	}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path
		s.mu.Lock()
		s.requested = append(s.requested, r.Method+" "+path)
		s.mu.Unlock()
		if s.refuse != nil {
			if err := s.refuse(path); err != nil {
				err.ErrStatus.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
				answer(w, int(err.ErrStatus.Code), err.ErrStatus)
				return
			}
		}
		items, listed := lists[path]
		switch found, known := objects[path]; {
		case strings.HasSuffix(path, "/log"):
			_, _ = io.WriteString(w, strings.ReplaceAll(s.log, "starting", "starting "+r.URL.Query().Get("container")+" "+r.URL.Query().Get("previous")))
		case known:
			answer(w, http.StatusOK, found)
		case listed:
			answer(w, http.StatusOK, map[string]any{"apiVersion": versionOf(path), "kind": items[0].(map[string]any)["kind"].(string) + "List", "metadata": map[string]any{}, "items": items})
		default:
			missing := apierrors.NewNotFound(schema.GroupResource{Resource: "things"}, path+"?token=hushhush-in-an-error")
			missing.ErrStatus.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
			answer(w, http.StatusNotFound, missing.ErrStatus)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// versionOf returns the version of the API of a path.
func versionOf(path string) string {
	parts := strings.Split(path, "/")
	if parts[1] == "api" {
		return parts[2]
	}
	return parts[2] + "/" + parts[3]
}

// gather runs the command, and returns its output.
func gather(t *testing.T, servers map[string]string, file string, change func(*options), contexts ...string) (string, error) {
	t.Helper()
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	f := cluster.NewFactory(streams)
	f.Changed = func(string) bool { return false }
	*f.Flags.KubeConfig = kubeconfigOf(t, servers)
	o := &options{Factory: f, file: file, limit: time.Minute, now: func() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }}
	if change != nil {
		change(o)
	}
	err := o.run(t.Context(), contexts)
	return out.String(), err
}

// unpack returns the files of a bundle.
func unpack(t *testing.T, file string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	zip, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for archive := tar.NewReader(zip); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		if header.Mode != 0o600 {
			t.Errorf("%s has mode %o", header.Name, header.Mode)
		}
		files[header.Name] = string(content)
	}
}

// R564, R565: a bundle has what is needed, and nothing that is secret, wherever it was.
func TestBundleHasNoSecrets(t *testing.T) {
	s := newSite(t)
	file := filepath.Join(t.TempDir(), "bundle.tar.gz")
	out, err := gather(t, map[string]string{"east/admin": s.URL}, file, nil, "east/admin")
	if err != nil || !strings.Contains(out, "Bundle "+file+" is written.") {
		t.Fatalf("error %v, output %s", err, out)
	}
	files := unpack(t, file)
	for name, content := range files {
		if strings.Contains(strings.ToLower(name+content), "hushhush") || strings.Contains(content, base64.StdEncoding.EncodeToString([]byte("hushhush-data"))) {
			t.Errorf("%s contains a secret:\n%s", name, content)
		}
		if strings.HasSuffix(name, ".json") && !json.Valid([]byte(content)) {
			t.Errorf("%s is not valid:\n%s", name, content)
		}
	}
	for name, want := range map[string]string{
		"version.json": "v1.36.3", "clusterset/members.json": `"clusterID":"east"`, "installation/secrets.json": `"name":"member-west"`, "installation/configmaps.json": "maintenance",
		"installation/events.json": "failed with", "installation/pods.json": "mcs-apiserver-1", "installation/deployments.json": "ETCD_PASSWORD", "storage/configmaps.json": `"name":"wrapped"`,
		"logs/mcs-apiserver-1/mcs-apiserver.log": "the last line", "logs/mcs-apiserver-1/mcs-apiserver.previous.log": "starting mcs-apiserver true", "logs/mcs-apiserver-1/mcs-controller.log": "starting mcs-controller",
		"dns/configmaps.json": "ready", "proxy/configmaps.json": "mode: nftables", "rbac/clusterroles.json": "mcs-apiserver", "doctor.json": `"verdict"`,
	} {
		if !strings.Contains(files["bundle/east_admin/"+name], want) {
			t.Errorf("%s lacks %q: %s", name, want, files["bundle/east_admin/"+name])
		}
	}
	if strings.Contains(files["bundle/east_admin/rbac/clusterroles.json"], "of-somebody-else") || files["bundle/east_admin/logs/mcs-apiserver-1/mcs-controller.previous.log"] != "" {
		t.Error("the bundle has something that it should not have")
	}
	index := files["bundle/index.txt"]
	for _, want := range []string{"Contexts: east/admin", "Metrics are not read: ", "  east_admin/clusterset/members.json (", "Not read, or not completely:\n", "  east_admin/clusterset/serviceimports.json: "} {
		if !strings.Contains(index, want) {
			t.Errorf("index.txt lacks %q:\n%s", want, index)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, request := range s.requested {
		// What a Pod answers through a proxy is anything, and metrics require credentials, which are not passed on.
		if !strings.HasPrefix(request, http.MethodGet) || strings.Contains(request, "/proxy") {
			t.Errorf("the command sent %s", request)
		}
	}
}

// R566: only the user may read the file, and an existing one is not replaced without being asked.
func TestFile(t *testing.T) {
	s := newSite(t)
	directory := t.TempDir()
	file := filepath.Join(directory, "bundle.tar.gz")
	servers := map[string]string{"east": s.URL}
	if _, err := gather(t, servers, file, nil, "east"); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, error %v", info.Mode(), err)
	}
	if err := os.WriteFile(file, []byte("precious"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := gather(t, servers, file, nil, "east"); err == nil || !strings.Contains(err.Error(), "exists: choose another one with --file, or replace it with --overwrite") {
		t.Errorf("got error %v", err)
	}
	if content, err := os.ReadFile(file); err != nil || string(content) != "precious" {
		t.Errorf("the file has %q, error %v", content, err)
	}
	if _, err := gather(t, servers, file, func(o *options) { o.overwrite = true }, "east"); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 || len(unpack(t, file)) == 0 {
		t.Errorf("mode %v, error %v", info.Mode(), err)
	}
	if left, err := os.ReadDir(directory); err != nil || len(left) != 1 {
		t.Errorf("left %v, error %v", left, err)
	}
}

// R564: a cluster that does not answer does not keep others from being read, and the command fails.
func TestClusterThatDoesNotAnswer(t *testing.T) {
	s, broken := newSite(t), newSite(t)
	broken.Close()
	file := filepath.Join(t.TempDir(), "bundle.tar.gz")
	_, err := gather(t, map[string]string{"east": s.URL, "west": broken.URL}, file, nil, "west", "east")
	if err == nil || !strings.Contains(err.Error(), "1 of 2 clusters could not be asked: west") {
		t.Errorf("got error %v", err)
	}
	files := unpack(t, file)
	if files["bundle/east/clusterset/members.json"] == "" || !strings.Contains(files["bundle/index.txt"], "west/version.json: the kube-apiserver is unreachable") {
		t.Errorf("index.txt is %s", files["bundle/index.txt"])
	}
}

// R564: what the user may not read is in the index, with the reason.
func TestPermissions(t *testing.T) {
	s := newSite(t)
	s.refuse = func(path string) *apierrors.StatusError {
		if path == "/version" || strings.HasSuffix(path, "/members") {
			return nil
		}
		return apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "", errors.New(`User "dev" cannot list resource`))
	}
	file := filepath.Join(t.TempDir(), "bundle.tar.gz")
	out, err := gather(t, map[string]string{"east": s.URL}, file, nil, "east")
	if err != nil || !strings.Contains(out, "items could not be read") {
		t.Errorf("error %v, output %s", err, out)
	}
	index := unpack(t, file)["bundle/index.txt"]
	for _, want := range []string{"east/installation/secrets.json: ", "east/logs: ", `User "dev" cannot list resource`} {
		if !strings.Contains(index, want) {
			t.Errorf("index.txt lacks %q:\n%s", want, index)
		}
	}
}

// R564: what a cluster sends as a name leads neither out of the bundle, nor to files of other clusters, and
// does not destroy the bundle.
func TestNamesOfFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bundle.tar.gz")
	b, err := create(file, false, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"west/logs/p/../../../../etc/x.log", "west/logs/p/../../../east/logs/x.log", "west/logs/p/a\x00b.log", "west/logs/p/" + strings.Repeat("x", 1000), "west//x", "west/logs/p/x.log"} {
		if err := b.add(name, func(w io.Writer) error { _, err := io.WriteString(w, "text"); return err }); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := errors.Join(b.index("heading"), b.close()); err != nil {
		t.Fatal(err)
	}
	files := unpack(t, file)
	if len(files) != 2 || files["bundle/west/logs/p/x.log"] == "" || !strings.Contains(files["bundle/index.txt"], `etc/x.log: the name that the cluster sent is not valid`) {
		t.Errorf("got %v", files)
	}
}

// R564: a cluster that makes up names of Pods and containers writes to its own directory only, and the bundle
// has what other clusters answer.
func TestNamesThatAClusterMakesUp(t *testing.T) {
	evil, honest := newSite(t), newSite(t)
	handler := evil.Config.Handler
	var containers []any
	for _, name := range append([]string{"../../../../../etc/x", "../../../west/logs/x", "a\x00b", "\x1b[2J", strings.Repeat("x", 1000), "good", "good"}, make([]string, 1000)...) {
		containers = append(containers, map[string]any{"name": name})
	}
	evil.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/namespaces/system/pods" {
			handler.ServeHTTP(w, r)
			return
		}
		answer(w, http.StatusOK, map[string]any{"apiVersion": "v1", "kind": "PodList", "metadata": map[string]any{}, "items": []any{
			object("Pod", "system", "mcs-apiserver-1", map[string]any{"spec": map[string]any{"containers": containers}}), object("Pod", "system", "../x", map[string]any{"spec": map[string]any{"containers": containers}}),
		}})
	})
	file := filepath.Join(t.TempDir(), "bundle.tar.gz")
	if _, err := gather(t, map[string]string{"east": evil.URL, "west": honest.URL}, file, nil, "east", "west"); err != nil {
		t.Fatal(err)
	}
	files, logs := unpack(t, file), 0
	for name := range files {
		if strings.Contains(name, "..") || unusual.MatchString(strings.ReplaceAll(name, "/", "")) || strings.HasSuffix(name, "x.log") {
			t.Errorf("the bundle has %q", name)
		}
		if strings.HasPrefix(name, "bundle/east/logs/") {
			logs++
		}
	}
	if logs != 1 || files["bundle/east/logs/mcs-apiserver-1/good.log"] == "" || files["bundle/west/logs/mcs-apiserver-1/mcs-controller.log"] == "" {
		t.Errorf("%d logs of east, index.txt is %s", logs, files["bundle/index.txt"])
	}
	for _, r := range files["bundle/index.txt"] {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Errorf("%q is in index.txt", r)
		}
	}
}

// R564: a cluster that answers slowly does not take up the time of others, and what was read is kept.
func TestSlowCluster(t *testing.T) {
	slow, fast := newSite(t), newSite(t)
	handler, done := slow.Config.Handler, make(chan struct{})
	slow.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/log") {
			select {
			case <-r.Context().Done():
			case <-done:
			}
			return
		}
		handler.ServeHTTP(w, r)
	})
	defer close(done)
	file := filepath.Join(t.TempDir(), "bundle.tar.gz")
	// The time is that of the whole cluster: reading what is fast has to fit into it.
	_, err := gather(t, map[string]string{"east": slow.URL, "west": fast.URL}, file, func(o *options) { o.limit = 10 * time.Second }, "east", "west")
	if err != nil {
		t.Fatal(err)
	}
	files := unpack(t, file)
	if files["bundle/east/clusterset/members.json"] == "" || files["bundle/west/doctor.json"] == "" || files["bundle/east/doctor.json"] != "" || !strings.Contains(files["bundle/index.txt"], "east: not everything was read within 10s") {
		t.Errorf("index.txt is %s", files["bundle/index.txt"])
	}
}

// R566: files and bundles have limits, and what does not fit is in the index.
func TestLimits(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bundle.tar.gz")
	b, err := create(file, false, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	b.maxFile, b.maxBundle = 200, 300
	lines := func(w io.Writer) error {
		list := &listWriter{to: w}
		var err error
		for i := 0; err == nil && i < 100; i++ {
			err = list.add(map[string]any{"i": i})
		}
		return errors.Join(err, list.end(err == nil))
	}
	reads := 0
	for _, name := range []string{"a.json", "b.json", "c.json"} {
		if err := b.add(name, func(w io.Writer) error { reads++; return lines(w) }); err != nil {
			t.Fatal(err)
		}
	}
	if reads != 2 {
		t.Errorf("%d files are read although two fill the bundle", reads)
	}
	if err := errors.Join(b.index("heading"), b.close()); err != nil {
		t.Fatal(err)
	}
	files := unpack(t, file)
	total := 0
	for _, name := range []string{"a.json", "b.json"} {
		content := files["bundle/"+name]
		if total += len(content); !json.Valid([]byte(content)) || len(content) > 210 {
			t.Errorf("%s is %s", name, content)
		}
	}
	if total > 320 || !strings.Contains(files["bundle/index.txt"], "b.json: the limit of the size is reached") || !strings.Contains(files["bundle/index.txt"], "c.json: the limit of the size is reached") {
		t.Errorf("%d bytes, index.txt is %s", total, files["bundle/index.txt"])
	}
}

// R566: of a long log, the end is kept, without the end of a private key whose begin is cut off.
func TestTailOfALog(t *testing.T) {
	long := strings.Repeat("a line of a log\n", 1000) + "the end\n"
	end := &tail{limit: 100}
	for chunk := range slices.Chunk([]byte(long), 7) {
		_, _ = end.Write(chunk)
	}
	if got := string(end.lines()); len(got) > 100 || !strings.HasSuffix(got, "a line of a log\nthe end\n") || !strings.HasPrefix(got, "a line") {
		t.Errorf("got %q", got)
	}
	cut := &tail{limit: 60}
	_, _ = io.WriteString(cut, "x\n"+privateKey+"\nthe end\n")
	if got := redact(string(cut.lines())); got != "the end\n" {
		t.Errorf("got %q", got)
	}
	short := &tail{limit: 100}
	_, _ = io.WriteString(short, "one line")
	if got := string(short.lines()); got != "one line" {
		t.Errorf("got %q", got)
	}
}

// R565: an argument of a Deployment does not lead out of its namespace.
func TestStorageNamespace(t *testing.T) {
	for arg, want := range map[string]string{"--storage-namespace=stored": "stored", "--storage-namespace=..": defaultStorage, "--storage-namespace=a/b": defaultStorage, "--x": defaultStorage} {
		deployment := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Args: []string{arg}}}}}}}
		if got := storageOf(deployment); got != want {
			t.Errorf("%s: got %q", arg, got)
		}
	}
}

func TestDirectoriesOfContexts(t *testing.T) {
	used := map[string]bool{}
	var got []string
	for _, context := range []string{"east", "arn:aws:eks:eu-1:1:cluster/west", "a/b", "a:b", "..", "../../etc"} {
		got = append(got, directoryOf(context, used))
	}
	if want := []string{"east", "arn_aws_eks_eu-1_1_cluster_west", "a_b", "a_b_2", "_2", "_.._etc"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
