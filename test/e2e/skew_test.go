// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster"
)

// earlier is the commit of the earlier version: the last release or, as there is none yet, a
// commit that stands for one. earlierVersion is what its programs say.
const (
	earlier        = "bee69af"
	earlierVersion = "v0.0.0-earlier"
)

// versionOverlay replaces the images of a version, and keeps earlier replicas together with a
// later one for some seconds.
const versionOverlay = `
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [%[1]s]
images:
- {name: mcs-apiserver, newName: %[2]s/mcs-apiserver%[3]s}
- {name: mcs-controller, newName: %[2]s/mcs-controller%[3]s}
patches:
- patch: |
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: mcs-apiserver, namespace: mcs-system}
    spec:
      minReadySeconds: 15
%[4]s`

// earlierCommands are the names of the earlier programs, which are not in an image.
const earlierCommands = `      template:
        spec:
          containers:
          - {name: mcs-apiserver, command: [mcs-apiserver-earlier]}
          - {name: mcs-controller, command: [mcs-controller-earlier]}
`

// buildEarlier builds the programs of the earlier version as images of the clusters, and returns the
// directory of its source.
func buildEarlier(t *testing.T) string {
	t.Helper()
	source := filepath.Join(set.Dir, "earlier")
	expect.NoError(t, os.MkdirAll(source, 0o755))
	run := func(command string) {
		t.Helper()
		cmd := osexec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", command)
		cmd.Dir = set.Root
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, output)
		}
	}
	run(fmt.Sprintf("git archive %s cmd pkg artifacts go.mod go.sum | tar --extract --directory %s", earlier, source))
	for _, program := range []string{"mcs-apiserver", "mcs-controller"} {
		run(fmt.Sprintf("CGO_ENABLED=0 go build -C %[1]s -trimpath -ldflags '-s -w -X k8s.io/component-base/version.gitVersion=%[2]s' -o %[3]s-earlier ./cmd/%[4]s",
			source, earlierVersion, filepath.Join(set.Dir, "images", program), program))
	}
	return source
}

// overlay writes the kustomization of a version.
func overlay(t *testing.T, artifacts, registry, suffix, commands string) string {
	t.Helper()
	directory := expect.Must(os.MkdirTemp(set.Dir, "overlay-"))(t)
	relative := expect.Must(filepath.Rel(directory, artifacts))(t)
	expect.NoError(t, os.WriteFile(filepath.Join(directory, "kustomization.yaml"), fmt.Appendf(nil, versionOverlay, relative, registry, suffix, commands), 0o644)) //nolint:gosec // it is no secret
	return directory
}

// serviceImports records the identities of all ServiceImports that a client of a cluster sees.
type serviceImports struct {
	guard sync.Mutex
	uids  map[string]types.UID
	lost  []string
}

// watchImports follows the ServiceImports of a namespace until the test ends.
func watchImports(t *testing.T, cluster *localcluster.Cluster, ns string) *serviceImports {
	t.Helper()
	s := &serviceImports{uids: map[string]types.UID{}}
	client := expect.Must(dynamic.NewForConfig(expect.Must(cluster.Config())(t)))(t)
	resource := schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1beta1", Resource: "serviceimports"}
	informer := dynamicinformer.NewFilteredDynamicInformer(client, resource, ns, 0, cache.Indexers{}, nil).Informer()
	seen := func(object any) {
		s.guard.Lock()
		defer s.guard.Unlock()
		item := object.(metav1.Object)
		if known, ok := s.uids[item.GetName()]; ok && known != item.GetUID() {
			s.lost = append(s.lost, fmt.Sprintf("%s has another UID", item.GetName()))
		}
		s.uids[item.GetName()] = item.GetUID()
	}
	expect.Must(informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: seen, UpdateFunc: func(_, object any) { seen(object) },
		DeleteFunc: func(object any) {
			key, _ := cache.DeletionHandlingMetaNamespaceKeyFunc(object)
			s.guard.Lock()
			defer s.guard.Unlock()
			s.lost = append(s.lost, key+" was deleted")
		},
	}))(t)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(t.Context().Done(), informer.HasSynced) {
		t.Fatal("imports are not known")
	}
	return s
}

func (s *serviceImports) check(t *testing.T, cluster *localcluster.Cluster) {
	t.Helper()
	s.guard.Lock()
	defer s.guard.Unlock()
	t.Logf("%s saw %d imports", cluster.Name, len(s.uids))
	if len(s.lost) > 0 {
		t.Errorf("imports in %s: %s", cluster.Name, strings.Join(s.lost, ", "))
	}
}

// exchange exports another Service from both clusters, and awaits responses in the other one.
func exchange(t *testing.T, ns, name string) {
	t.Helper()
	for _, from := range both() {
		service := name + "-of-" + from.Name
		apply(t, from, ns, fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: %s}\nspec: {selector: {app: web}, %s}\n---%s", service, usual,
			strings.ReplaceAll(exportWeb, "name: web", "name: "+service)))
	}
	for i, in := range both() {
		from := both()[1-i]
		service := name + "-of-" + from.Name
		awaitReady(t, in, ns, service)
		awaitAnswers(t, in, ns, "TCP", "4", service+"."+ns+".svc.clusterset.local", from)
	}
}

// awaitMixed waits until replicas of both versions are ready in a cluster.
func awaitMixed(t *testing.T, cluster *localcluster.Cluster) {
	t.Helper()
	expect.Eventually(t, "replicas of both versions", func(ctx context.Context) error {
		pods, err := cluster.Kubectl(ctx, "get", "pods", "-n", "mcs-system", "-l", "app.kubernetes.io/name=mcs-apiserver", "-o",
			`jsonpath={range .items[*]}{.status.conditions[?(@.type=="Ready")].status} {.spec.containers[0].image}{"\n"}{end}`)
		former, latter := 0, 0
		for line := range strings.Lines(pods) {
			if !strings.HasPrefix(line, "True ") {
				continue
			}
			if strings.Contains(line, "-earlier") {
				former++
			} else {
				latter++
			}
		}
		if err != nil || former == 0 || latter == 0 {
			return fmt.Errorf("%w: %s", err, pods)
		}
		return nil
	})
}

// R442: clusters of an earlier version and this one work together, and so do replicas of both
// versions in one cluster, while it is upgraded and when it is rolled back. No request fails, and
// no import is lost.
func TestVersionsWorkTogether(t *testing.T) {
	source := buildEarlier(t)
	ns := namespace(t, "skew")
	for _, cluster := range both() {
		deploy(t, cluster, ns, workload(cluster, 1, usual)+"---"+exportWeb)
		runClient(t, cluster, ns)
	}
	imports := map[*localcluster.Cluster]*serviceImports{}
	stops := map[*localcluster.Cluster]func() outcome{}
	for _, cluster := range both() {
		awaitReady(t, cluster, ns, "web")
		awaitAnswers(t, cluster, ns, "TCP", "4", clusterSetName(ns), east, west)
		imports[cluster] = watchImports(t, cluster, ns)
		stops[cluster] = load(t, cluster, ns, clusterSetName(ns))
	}
	this := filepath.Join(set.Root, "artifacts", "default")
	t.Cleanup(func() {
		if output, err := west.Kubectl(context.Background(), "apply", "-k", this); err != nil {
			t.Errorf("%v: %s", err, output)
		}
		if output, err := west.Kubectl(context.Background(), "rollout", "status", "deployment/mcs-apiserver", "-n", "mcs-system", "--timeout=100s"); err != nil {
			t.Errorf("%v: %s", err, output)
		}
	})
	version := kubectl(t, east, "get", "member", "west", "-o", "jsonpath={.status.version}")
	for i, step := range []struct{ artifacts, suffix, commands, version string }{
		{filepath.Join(source, "artifacts", "default"), "-earlier", earlierCommands, earlierVersion},
		{this, "", "", version},
	} {
		begun := time.Now()
		kubectl(t, west, "apply", "-k", overlay(t, step.artifacts, fmt.Sprintf("step-%d", i), step.suffix, step.commands))
		awaitMixed(t, west)
		exchange(t, ns, fmt.Sprintf("mixed-%d", i))
		kubectl(t, west, "rollout", "status", "deployment/mcs-apiserver", "-n", "mcs-system", "--timeout=180s")
		kubectl(t, east, "wait", "--for=jsonpath={.status.version}="+step.version, "member/west", "--timeout=60s")
		exchange(t, ns, fmt.Sprintf("replaced-%d", i))
		t.Logf("west has version %s after %s", step.version, time.Since(begun).Round(time.Second))
	}
	for _, cluster := range both() {
		imports[cluster].check(t, cluster)
		result := stops[cluster]()
		t.Logf("requests in %s: %+v", cluster.Name, result)
		if result.requests == 0 || result.failed > 0 || len(result.from) != 2 {
			t.Errorf("requests in %s: %+v", cluster.Name, result)
		}
	}
}
