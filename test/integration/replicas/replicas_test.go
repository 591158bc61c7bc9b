// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package replicas tests that several replicas of the server are consistent for
// clients of a real kube-apiserver.
package replicas

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/informers/externalversions"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/controlplane"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
)

var clusters *fleet.Fleet

func TestMain(m *testing.M) {
	fleet.Main(m, &clusters, fleet.Config{
		Names: []string{"east"}, ClusterSet: "everywhere",
		Configure: func(_ string, plane *controlplane.Config, installed *installation.Config) {
			installed.Replicas = 2
			var errs [2]error
			plane.APIServerFlags, errs[0] = auditFlags(plane.Dir, filepath.Join(plane.Dir, "audit.log"))
			installed.APIServerFlags, errs[1] = auditFlags(installed.Dir, "-") // with the other output
			if err := errors.Join(errs[:]...); err != nil {
				panic(err)
			}
		},
	})
}

const (
	namespaces = 12
	perSpace   = 100
	services   = namespaces * perSpace
)

func east() *fleet.Cluster { return clusters.Clusters[0] }

// exportMany exports 1,200 services.
func exportMany(t *testing.T) {
	t.Helper()
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(8)
	for space := range namespaces {
		ns := fmt.Sprintf("space-%02d", space)
		expect.NoError(t, east().Namespace(t.Context(), ns))
		for service := range perSpace {
			group.Go(func() error {
				name := fmt.Sprintf("service-%02d", service)
				if _, err := east().Service(ctx, ns, name); err != nil {
					return err
				}
				_, err := east().Export(ctx, ns, name)
				return err
			})
		}
	}
	expect.NoError(t, group.Wait())
}

// clients returns one client per replica, bypassing the aggregator.
func clients(t *testing.T) []versioned.Interface {
	t.Helper()
	var clients []versioned.Interface
	for _, replica := range east().APIServers {
		config, err := replica.Config()
		expect.NoError(t, err)
		client, err := versioned.NewForConfig(config)
		expect.NoError(t, err)
		clients = append(clients, client)
	}
	return clients
}

// identities returns what must be equal in all replicas: UID, creation time and
// transition times of each import.
func identities(ctx context.Context, client versioned.Interface, ns string) (map[string]string, error) {
	list, err := client.MulticlusterXV1beta1().ServiceImports(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, item := range list.Items {
		text := fmt.Sprintf("%s %s", item.UID, item.CreationTimestamp.UTC())
		for _, condition := range item.Status.Conditions {
			text += fmt.Sprintf(" %s=%s since %s", condition.Type, condition.Status, condition.LastTransitionTime.UTC())
		}
		found[item.Namespace+"/"+item.Name] = text
	}
	return found, nil
}

// awaitSame waits until all replicas serve the same imports with the same
// identities in a namespace, or in all of them, and all are ready. It returns them.
func awaitSame(t *testing.T, ns string, count int) map[string]string {
	t.Helper()
	var first map[string]string
	expect.Eventually(t, "the same imports in every replica", func(ctx context.Context) error {
		first = nil
		for i, client := range clients(t) {
			found, err := identities(ctx, client, ns)
			if err != nil {
				return err
			}
			if len(found) != count {
				return fmt.Errorf("replica %d has %d imports, want %d", i, len(found), count)
			}
			if first == nil {
				first = found
			}
			for key, identity := range found {
				if !strings.Contains(identity, " Ready=True ") {
					return fmt.Errorf("%s is %q, want it to be ready", key, identity)
				}
				if first[key] != identity {
					return fmt.Errorf("%s is %q in one replica and %q in another", key, first[key], identity)
				}
			}
		}
		return nil
	})
	return first
}

// R32: identities are the same in every replica and after restarts, and lists that
// kubectl reads through the aggregator, from either replica, are complete.
func TestReplicasShowTheSameImports(t *testing.T) {
	start := time.Now()
	exportMany(t)
	before := awaitSame(t, "", services)
	t.Logf("%d services exported and imported in %s", services, time.Since(start).Round(time.Millisecond))

	for range 50 {
		output, err := east().Kubectl(t.Context(), "get", "serviceimports", "-A", "--no-headers")
		if err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		if lines := strings.Count(output, "\n"); lines != services {
			t.Fatalf("kubectl shows %d imports, want %d", lines, services)
		}
	}

	for _, replica := range east().APIServers {
		replica.Kill()
		<-replica.Exited()
		expect.NoError(t, replica.Start())
		expect.NoError(t, replica.AwaitReady(t.Context()))
	}
	for key, identity := range awaitSame(t, "", services) {
		if before[key] != identity {
			t.Errorf("%s was %q before the restarts, is %q", key, before[key], identity)
		}
	}
	// R162: none of the imports has ended, so that nothing is stored about them.
	if got := records(t, ""); got != 0 {
		t.Errorf("%d records of imports", got)
	}
}

// An informer whose server is killed repeatedly while imports are created and
// removed converges: no import is missing or left over.
func TestInformerMovesBetweenReplicas(t *testing.T) {
	const ns = "moving"
	expect.NoError(t, east().Namespace(t.Context(), ns))
	ctx, cancel := context.WithCancel(t.Context())
	factory := externalversions.NewSharedInformerFactoryWithOptions(east().Clientset, 0, externalversions.WithNamespace(ns))
	informer := factory.MulticlusterX().V1beta1().ServiceImports()
	held := informer.Informer().GetStore()
	factory.StartWithContext(ctx)
	defer factory.Shutdown()
	defer cancel()
	if !cache.WaitForCacheSync(ctx.Done(), informer.Informer().HasSynced) {
		t.Fatal("informer did not sync")
	}
	changes := make(chan error, 1)
	changing, stop := context.WithCancel(t.Context())
	defer stop()
	go func() { changes <- churn(changing, ns) }()
	for move := range 6 {
		replica := east().APIServers[move%2]
		replica.Kill()
		<-replica.Exited()
		expect.NoError(t, replica.Start())
		expect.NoError(t, replica.AwaitReady(t.Context()))
	}
	stop()
	if err := <-changes; err != nil {
		t.Fatal(err)
	}
	expect.Eventually(t, "convergence", func(ctx context.Context) error {
		list, err := clients(t)[0].MulticlusterXV1beta1().ServiceImports(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(list.Items) != len(held.ListKeys()) {
			return fmt.Errorf("informer holds %d imports, want %d", len(held.ListKeys()), len(list.Items))
		}
		for _, item := range list.Items {
			object, ok, err := held.GetByKey(ns + "/" + item.Name)
			if err != nil || !ok {
				return errors.Join(fmt.Errorf("informer lacks %s", item.Name), err)
			}
			if got := object.(*multiclusterxv1beta1.ServiceImport); got.UID != item.UID || got.Labels["round"] != item.Labels["round"] {
				return fmt.Errorf("informer has an old %s: %v, want %v", item.Name, got.Labels, item.Labels)
			}
		}
		return nil
	})
}

// churn exports, changes and withdraws services until the context is done. It
// writes through whichever replica responds.
func churn(ctx context.Context, ns string) error {
	exports := east().Clientset.MulticlusterXV1beta1().ServiceExports(ns)
	for i := range 40 {
		if _, err := east().Service(ctx, ns, fmt.Sprintf("service-%d", i)); err != nil {
			return err
		}
	}
	for round := 0; ctx.Err() == nil; round++ {
		name := fmt.Sprintf("service-%d", round%40)
		export := &multiclusterxv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Name: name}}
		export.Spec.ExportedLabels = map[string]string{"round": fmt.Sprint(round)}
		// Requests to a server that is being killed fail; the next round continues.
		if round%3 == 2 {
			_ = exports.Delete(ctx, name, metav1.DeleteOptions{})
		} else if _, err := exports.Create(ctx, export, metav1.CreateOptions{}); err != nil {
			if current, err := exports.Get(ctx, name, metav1.GetOptions{}); err == nil {
				current.Spec = export.Spec
				_, _ = exports.Update(ctx, current, metav1.UpdateOptions{})
			}
		}
	}
	return nil
}

// Until all inputs of imports are known, reads are refused with Retry-After: a
// missing import means that no cluster exports the service.
func TestReadsBeforeSyncAreRefused(t *testing.T) {
	const ns, binding = "early", "mcs-apiserver"
	expect.NoError(t, east().Namespace(t.Context(), ns))
	_, err := east().Service(t.Context(), ns, "web")
	expect.NoError(t, err)
	_, err = east().Export(t.Context(), ns, "web")
	expect.NoError(t, err)
	// Without this permission the server cannot list its members.
	bindings := east().Kubernetes.RbacV1().RoleBindings(installation.Namespace)
	right, err := bindings.Get(t.Context(), binding, metav1.GetOptions{})
	expect.NoError(t, err)
	expect.NoError(t, bindings.Delete(t.Context(), binding, metav1.DeleteOptions{}))
	right.ResourceVersion, right.UID = "", ""

	replica := east().APIServers[1]
	expect.NoError(t, replica.Stop(time.Minute))
	expect.NoError(t, replica.Start())
	config, err := replica.Config()
	expect.NoError(t, err)
	client, err := rest.HTTPClientFor(config)
	expect.NoError(t, err)
	ask := func(ctx context.Context, path string) (code int, retryAfter string, err error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, replica.URL()+path, nil)
		if err != nil {
			return 0, "", err
		}
		response, err := client.Do(request)
		if err != nil {
			return 0, "", err
		}
		defer response.Body.Close()
		return response.StatusCode, response.Header.Get("Retry-After"), nil
	}
	expect.Eventually(t, "server responds", func(ctx context.Context) error {
		code, _, err := ask(ctx, "/livez/ping")
		if err == nil && code != http.StatusOK {
			err = errors.New(http.StatusText(code))
		}
		return err
	})
	imports := "/apis/multicluster.x-k8s.io/v1beta1/namespaces/" + ns + "/serviceimports"
	for _, path := range []string{
		imports, imports + "/web", imports + "/never-was", imports + "?watch=true", imports + "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
		"/apis/clusterset.mcs-apiserver.io/v1alpha1/exportedservices", "/apis/clusterset.mcs-apiserver.io/v1alpha1/members", "/apis/about.k8s.io/v1beta1/clusterproperties",
	} {
		code, retryAfter, err := ask(t.Context(), path)
		expect.NoError(t, err)
		if code != http.StatusServiceUnavailable && code != http.StatusTooManyRequests || retryAfter == "" {
			t.Errorf("%s: %d, Retry-After %q", path, code, retryAfter)
		}
	}
	code, _, err := ask(t.Context(), "/readyz")
	expect.NoError(t, err)
	if code == http.StatusOK {
		t.Error("server reports readiness")
	}
	expect.NoError(t, replica.Stop(time.Minute)) // stopping works in this state too
	expect.NoError(t, replica.Start())
	_, err = bindings.Create(t.Context(), right, metav1.CreateOptions{})
	expect.NoError(t, err)
	expect.NoError(t, replica.AwaitReady(t.Context()))
	code, _, err = ask(t.Context(), imports+"/web")
	expect.NoError(t, err)
	if code != http.StatusOK {
		t.Errorf("after the sync: %d", code)
	}
}
