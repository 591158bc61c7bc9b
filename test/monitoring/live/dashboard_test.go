// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package live runs Prometheus, which is built from source, and scrapes joined clusters with it.
package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/process"
	"github.com/mcs-apiserver/mcs-apiserver/test/monitoring/dashboard"
)

// clusters are joined by TestMain. West is scraped.
var clusters *fleet.Fleet

func TestMain(m *testing.M) {
	fleet.Main(m, &clusters, fleet.Config{Names: []string{"east", "west"}, ClusterSet: "everywhere"})
}

func east() *fleet.Cluster { return clusters.Cluster("east") }
func west() *fleet.Cluster { return clusters.Cluster("west") }

// faults are the panels that have data only if something is wrong.
var faults = map[string]bool{"Conditions that are not met": true, "Refused objects": true, "Preferences without effect": true}

const (
	monitoring = "../../../artifacts/monitoring/"
	address    = "127.0.0.1:9090" // in a network namespace of its own
)

// R527: every query of the dashboard returns data. R525: the rules can be evaluated, and no alert
// fires if nothing is wrong.
func TestDashboard(t *testing.T) {
	startPrometheus(t)
	ns := clusters.CreateNamespace(t, "dashboard")
	east().ExportService(t, ns, "web", []string{"10.0.0.1"})
	west().ExportService(t, ns, "api", []string{"10.0.1.1"})
	expect.Must(west().Service(t.Context(), ns, "preferring"))(t)
	expect.Must(west().Export(t.Context(), ns, "preferring", func(e *multiclusterxv1beta1.ServiceExport) {
		e.Annotations = map[string]string{multicluster.ClusterPreferenceAnnotation: "cluster"}
	}))(t)
	west().AwaitImport(t, ns, "web", "east")
	changes, changed := 0, time.Time{}
	for _, query := range expect.Must(dashboard.Queries(monitoring+"dashboard.json", "1m"))(t) {
		if faults[query.Panel] {
			expect.Must(ask(t.Context(), query.Expression))(t)
			continue
		}
		expect.Within(t, 3*time.Minute, fmt.Sprintf("data of panel %q", query.Panel), func(ctx context.Context) error {
			if time.Since(changed) > time.Second { // propagation delays need changes
				if err := change(ctx, ns, changes); err != nil {
					return err
				}
				changes, changed = changes+1, time.Now()
			}
			series, err := ask(ctx, query.Expression)
			if err == nil && len(series) == 0 {
				err = fmt.Errorf("query %s returns nothing", query.Expression)
			}
			return err
		})
	}
	if firing := expect.Must(ask(t.Context(), `ALERTS{alertstate="firing"}`))(t); len(firing) > 0 {
		t.Errorf("alerts fire: %v", firing)
	}
	expectEvaluated(t)
}

// expectEvaluated checks that all rules are evaluated without an error.
func expectEvaluated(t *testing.T) {
	t.Helper()
	type group struct {
		Rules []struct{ Name, Health, LastError string }
	}
	expect.Eventually(t, "evaluation of all rules", func(ctx context.Context) error {
		data, err := get[struct{ Groups []group }](ctx, "rules")
		if err == nil && len(data.Groups) == 0 {
			err = errors.New("there are no rules")
		}
		for _, group := range data.Groups {
			for _, rule := range group.Rules {
				if rule.Health != "ok" {
					err = errors.Join(err, fmt.Errorf("rule %s is %s: %s", rule.Name, rule.Health, rule.LastError))
				}
			}
		}
		return err
	})
}

// change changes endpoints as the EndpointSlice controller does.
func change(ctx context.Context, namespace string, number int) error {
	_, err := east().EndpointSlice(ctx, namespace, "web", []string{fmt.Sprintf("10.0.0.%d", 1+number%200)}, func(slice *discoveryv1.EndpointSlice) {
		slice.Labels[discoveryv1.LabelManagedBy] = "endpointslice-controller.k8s.io"
		slice.Annotations = map[string]string{corev1.EndpointsLastChangeTriggerTime: time.Now().UTC().Format(time.RFC3339Nano)}
	})
	return err
}

// ask returns the series that a query returns.
func ask(ctx context.Context, query string) ([]any, error) {
	data, err := get[struct{ Result []any }](ctx, "query?query="+url.QueryEscape(query))
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", query, err)
	}
	return data.Result, nil
}

// get returns what the API of Prometheus returns.
func get[T any](ctx context.Context, path string) (data T, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/api/v1/"+path, nil)
	if err != nil {
		return data, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return data, err
	}
	defer response.Body.Close()
	answer := struct {
		Status, Error string
		Data          *T
	}{Data: &data}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return data, fmt.Errorf("%s: %w", response.Status, err)
	}
	if answer.Status != "success" {
		return data, fmt.Errorf("%s: %s", response.Status, answer.Error)
	}
	return data, nil
}

// startPrometheus lets Prometheus scrape west as documented, until the test ends.
func startPrometheus(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, content string) string {
		file := filepath.Join(dir, name)
		expect.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		return file
	}
	server := expect.Must(west().APIServers[0].Config())(t)
	tokenFile, caFile := write("token", token(t)), write("ca.crt", string(server.CAData))
	job := func(name, address string) string {
		return fmt.Sprintf(`
- job_name: %s
  scheme: https
  authorization: {credentials_file: %q}
  tls_config: {ca_file: %q, server_name: %q}
  static_configs: [{targets: [%q]}]`, name, tokenFile, caFile, server.ServerName, expect.Must(url.Parse(address))(t).Host)
	}
	config := write("prometheus.yaml", fmt.Sprintf(`
global: {scrape_interval: 2s, evaluation_interval: 2s}
rule_files: [%q]
scrape_configs:%s%s
`, expect.Must(filepath.Abs(monitoring+"rules.yaml"))(t), job("mcs-apiserver", server.Host), job("mcs-controller", west().MetricsURL())))
	prometheus, err := process.Start(process.Command{
		Name: "Prometheus", Path: filepath.Join(west().Root, "bin", "test", "prometheus"), Log: filepath.Join(west().Dir, "prometheus.log"),
		Args: []string{"--config.file=" + config, "--storage.tsdb.path=" + filepath.Join(dir, "data"), "--web.listen-address=" + address},
	})
	if err != nil {
		t.Fatalf("start Prometheus, which `make prometheus` builds: %v", err)
	}
	t.Cleanup(func() { expect.NoError(t, prometheus.Stop(time.Minute)) }) // before its data is removed
	expect.NoError(t, prometheus.Await(t.Context(), time.Minute, func(ctx context.Context) error {
		series, err := ask(ctx, "up == 1")
		if err == nil && len(series) != 2 {
			err = fmt.Errorf("%d targets are up, want 2", len(series))
		}
		return err
	}))
}

// token returns a token of a new service account of west that may read metrics.
func token(t *testing.T) string {
	t.Helper()
	name := "prometheus-" + strings.ToLower(t.Name())
	accounts, roles := west().Kubernetes.CoreV1().ServiceAccounts(installation.Namespace), west().Kubernetes.RbacV1()
	expect.Must(accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))(t)
	expect.Must(roles.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}},
	}, metav1.CreateOptions{}))(t)
	expect.Must(roles.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: installation.Namespace, Name: name}},
	}, metav1.CreateOptions{}))(t)
	return expect.Must(accounts.CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{}))(t).Status.Token
}
