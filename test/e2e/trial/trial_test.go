// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package trial tests `kubectl mcs test`, `kubectl mcs gather` and `kubectl mcs status --wait` on clusters.
package trial

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster/fabric"
)

var (
	set        *localcluster.Set
	east, west *localcluster.Cluster
)

func TestMain(m *testing.M) {
	os.Exit(localcluster.RunTests(m, func(ctx context.Context, clusters *localcluster.Set) (err error) {
		set = clusters
		if err := set.Up(ctx, "east", "west"); err != nil {
			return err
		}
		if east, err = set.Cluster("east"); err != nil {
			return err
		}
		if west, err = set.Cluster("west"); err != nil {
			return err
		}
		return set.Join(ctx, "trial")
	}))
}

// report is what `kubectl mcs test -o json` prints.
type report struct {
	Passed             bool
	Namespace, Service string
	Clusters           []struct{ ClusterID string }
	Checks             []struct {
		From, To, Path, Means, Family, Result, Reason string
		LatencyMilliseconds                           *float64
		AnsweredBy                                    map[string]int
	}
}

// try runs `kubectl mcs test`, and returns the report and the exit code.
func try(t *testing.T, args ...string) (report, int) {
	t.Helper()
	output, err := set.Kubectl(t.Context(), append([]string{"mcs", "test", "east", "west", "-o", "json"}, args...)...)
	begin := strings.Index(output, "{\n")
	if begin < 0 {
		t.Fatalf("no report: %v\n%s", err, output)
	}
	var found report
	if err := json.NewDecoder(strings.NewReader(output[begin:])).Decode(&found); err != nil {
		t.Fatalf("%v in %s", err, output)
	}
	t.Log(output)
	return found, exitCode(t, err)
}

func exitCode(t *testing.T, err error) int {
	t.Helper()
	var exited *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exited):
		return exited.ExitCode()
	}
	t.Fatal(err)
	return 0
}

// nothingLeft waits until nothing of any run is left.
func nothingLeft(t *testing.T) {
	t.Helper()
	for _, cluster := range []*localcluster.Cluster{east, west} {
		expect.Eventually(t, "deletion in "+cluster.Name, func(ctx context.Context) error {
			output, err := cluster.Kubectl(ctx, "get", "namespaces,pods,services,serviceexports", "-A", "-l", "app.kubernetes.io/name=mcs-test", "-o", "name", "--ignore-not-found")
			if err == nil && strings.TrimSpace(output) != "" {
				err = errors.New(output)
			}
			return err
		})
	}
}

// R560 to R563: everything works between two clusters over both families, and nothing is left.
func TestClustersReachEachOther(t *testing.T) {
	found, code := try(t)
	if !found.Passed || code != 0 {
		t.Errorf("passed %t, exit code %d", found.Passed, code)
	}
	seen, answered := map[string]bool{}, map[string]bool{}
	for _, check := range found.Checks {
		if check.Result != "OK" || check.LatencyMilliseconds == nil {
			t.Errorf("got %+v", check)
		}
		seen[fmt.Sprintf("%s>%s %s %s %s", check.From, check.To, check.Path, check.Means, check.Family)] = true
		if check.To != "" && check.Means != "DNS" && check.AnsweredBy[check.To] == 0 {
			t.Errorf("%+v was answered by %v", check, check.AnsweredBy)
		}
		for cluster := range check.AnsweredBy {
			if check.Path == "ClusterSetIP" {
				answered[check.From+" "+check.Family+" "+cluster] = true
			}
		}
	}
	if len(answered) != 8 { // from both clusters, over both families, by both clusters
		t.Errorf("the ClusterSet IP was answered by %v", answered)
	}
	for _, from := range []string{"east", "west"} {
		for _, family := range []string{"IPv4", "IPv6"} {
			for _, means := range []string{"DNS", "TCP", "UDP"} {
				for _, want := range []string{from + ">east Headless ", from + ">west Headless ", from + "> ClusterSetIP "} {
					if !seen[want+means+" "+family] {
						t.Errorf("%s%s %s was not tried", want, means, family)
					}
				}
			}
		}
	}
	nothingLeft(t)
}

// R560, R567, R569: a cut between clusters is in the matrix, what is left works, and status waits for the repair.
func TestCutIsInTheMatrix(t *testing.T) {
	if err := set.Impair(t.Context(), fabric.Fault{Clusters: [2]string{"east", "west"}, Cut: true}); err != nil {
		t.Fatal(err)
	}
	repaired := false
	repair := func() {
		if err := set.Repair(context.Background(), "east", "west"); err != nil {
			t.Error(err)
		}
		repaired = true
	}
	defer func() {
		if !repaired {
			repair()
		}
	}()
	found, code := try(t, "--timeout", "20s")
	if found.Passed || code != 1 {
		t.Errorf("passed %t, exit code %d", found.Passed, code)
	}
	failed := 0
	for _, check := range found.Checks {
		switch across := check.To != "" && check.To != check.From; {
		case across && check.Result != "Failed", !across && check.To != "" && check.Result != "OK":
			t.Errorf("got %+v", check)
		case across:
			failed++
			if !strings.Contains(check.Reason, check.To) {
				t.Errorf("the reason of %+v does not name the cluster", check)
			}
		}
	}
	if failed == 0 {
		t.Error("nothing failed")
	}
	output, err := set.Kubectl(t.Context(), "mcs", "status", "east", "west", "--wait", "--timeout", "5s")
	if code := exitCode(t, err); code != 1 || !strings.Contains(output, "clusters are not connected in time") {
		t.Errorf("exit code %d:\n%s", code, output)
	}
	repair()
	if output, err := set.Kubectl(t.Context(), "mcs", "status", "east", "west", "--wait", "--timeout", "2m"); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
	nothingLeft(t)
}

// R562: what --keep leaves is spared by --cleanup, because it may be in use, unless its run is named.
func TestCleanup(t *testing.T) {
	found, code := try(t, "--keep")
	if !found.Passed || code != 0 {
		t.Errorf("passed %t, exit code %d", found.Passed, code)
	}
	for _, step := range []struct{ args, want string }{
		{"", "kept namespace " + found.Namespace}, {" --run " + strings.TrimPrefix(found.Service, "mcs-test-"), "deleted namespace " + found.Namespace},
	} {
		output, err := set.Kubectl(t.Context(), strings.Fields("mcs test east west --cleanup"+step.args)...)
		if err != nil || strings.Count(output, step.want) != 2 {
			t.Errorf("error %v:\n%s", err, output)
		}
	}
	nothingLeft(t)
}

// R564 to R566: a bundle has what is needed, and none of the credentials in the clusters.
func TestBundle(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bundle.tar.gz")
	output, err := set.Kubectl(t.Context(), "mcs", "gather", "east", "west", "-f", file)
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	files := unpack(t, file)
	t.Log(files["bundle/index.txt"])
	for _, name := range []string{
		"clusterset/members.json", "clusterset/serviceexports.json", "api/apiservices.json", "api/validatingadmissionpolicies.json", "rbac/clusterroles.json", "installation/deployments.json",
		"installation/pods.json", "installation/events.json", "installation/leases.json", "installation/secrets.json", "dns/configmaps.json", "doctor.json", "version.json",
	} {
		for _, cluster := range []string{"east", "west"} {
			if content := files["bundle/"+cluster+"/"+name]; !json.Valid([]byte(content)) {
				t.Errorf("%s/%s is %q", cluster, name, content)
			}
		}
	}
	logs := 0
	for name := range files {
		if strings.HasPrefix(name, "bundle/east/logs/") {
			logs++
		}
	}
	if logs < 2 || !strings.Contains(files["bundle/east/clusterset/members.json"], `"west"`) {
		t.Errorf("%d logs, members %s", logs, files["bundle/east/clusterset/members.json"])
	}
	for _, secret := range secrets(t) {
		for name, content := range files {
			if strings.Contains(content, secret) {
				t.Errorf("%s contains a secret", name)
			}
		}
	}
}

var token = regexp.MustCompile(`"?token"?: *"?([^\s"]+)`)

// secrets returns the values of all Secrets, and the tokens in them.
func secrets(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, cluster := range []*localcluster.Cluster{east, west} {
		var list struct {
			Items []struct{ Data map[string]string }
		}
		if err := json.Unmarshal([]byte(cluster.MustKubectl(t, "get", "secrets", "-n", "mcs-system", "-o", "json")), &list); err != nil {
			t.Fatal(err)
		}
		for _, item := range list.Items {
			for key, value := range item.Data {
				if len(value) < 40 || strings.HasSuffix(key, ".crt") { // cluster IDs and certificates are no secrets
					continue
				}
				decoded := string(expect.Must(base64.StdEncoding.DecodeString(value))(t))
				found = append(found, value, decoded)
				for _, match := range token.FindAllStringSubmatch(decoded, -1) {
					found = append(found, match[1])
				}
			}
		}
	}
	if len(found) < 4 {
		t.Fatalf("there are %d secrets", len(found))
	}
	return found
}

// unpack returns the files of a bundle.
func unpack(t *testing.T, file string) map[string]string {
	t.Helper()
	opened := expect.Must(os.Open(file))(t)
	defer opened.Close()
	files := map[string]string{}
	for archive := tar.NewReader(expect.Must(gzip.NewReader(opened))(t)); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(expect.Must(io.ReadAll(archive))(t))
	}
}
