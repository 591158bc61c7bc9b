// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/clustertest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/commandtest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/plan"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

// hostileText clears the terminal, sets its title, ends the line, reverses the rest,
// and begins with a control character of each kind.
const hostileText = "evil\x1b[2J\x1b]0;title\x07\r\n\u009b31m\u202e\x7f\x00INJECTED"

// hostile is a cluster whose responses are like those of another one, but for the
// text in them, and for writes, which it refuses.
func hostile(t *testing.T, honest http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Warning", `299 - "evil `+"\u009b2J\u202e"+`"`) // HTTP has no other control characters
		if r.Method != http.MethodGet || strings.Contains(r.URL.Path, "/services/") {
			refuse(w, http.StatusForbidden)
			return
		}
		recorded := httptest.NewRecorder()
		honest.ServeHTTP(recorded, r)
		var object any
		if err := json.Unmarshal(recorded.Body.Bytes(), &object); err != nil || recorded.Code != http.StatusOK {
			refuse(w, http.StatusNotFound)
			return
		}
		commandtest.Answer(w, http.StatusOK, poison(object, ""))
	}))
	t.Cleanup(server.Close)
	return server
}

func refuse(w http.ResponseWriter, code int) {
	commandtest.Answer(w, code, map[string]any{
		"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": http.StatusText(code), "message": "no: " + hostileText,
	})
}

// poison appends the hostile text to all strings of an object but those without which
// a client would not read it.
func poison(value any, key string) any {
	switch value := value.(type) {
	case map[string]any:
		for key := range value {
			value[key] = poison(value[key], key)
		}
		return value
	case []any:
		for i := range value {
			value[i] = poison(value[i], key)
		}
		return value
	case string:
		if sets.New("apiVersion", "kind", "name", "namespace", "lastSeen", "exportedAt", "lastTransitionTime", "creationTimestamp", "state", "type", "status", "data", "kubeconfig", "cluster-id").Has(key) {
			return value
		}
		return value + hostileText
	}
	return value
}

// withNorth adds a member, its Secret, and a service that it exports.
func withNorth(objects map[string]any) {
	objects[commandtest.ClusterSetPath+"members"] = commandtest.List("clusterset.mcs-apiserver.io/v1alpha1", "Member",
		clustertest.NewMember("north", clustersetv1alpha1.MemberLost, clustertest.Condition(clusterset.MemberMutual, metav1.ConditionFalse, "NotListed", "not listed"),
			func(status *clustersetv1alpha1.MemberStatus) { status.Version = "v1.2.3" }))
	objects["/api/v1/namespaces/mcs-system/secrets"] = commandtest.List("v1", "Secret", map[string]any{
		"metadata": map[string]string{"name": "member-north"}, "type": clusterset.MemberSecretType, "data": map[string][]byte{clusterset.MemberSecretClusterID: []byte("north")},
	})
	for path, namespace := range map[string]string{"exportedservices": "", "namespaces/default/exportedservices": "default"} {
		service := clustertest.NewExported("north", 0)
		service.Namespace = namespace
		objects[commandtest.ClusterSetPath+path] = commandtest.List("clusterset.mcs-apiserver.io/v1alpha1", "ExportedService", service)
	}
	objects[commandtest.ClusterSetPath+"namespaces/default/exportedendpointslices"] = commandtest.List("clusterset.mcs-apiserver.io/v1alpha1", "ExportedEndpointSlice")
}

// withCRDs adds the Deployment of mcs-apiserver, and a CRD that serves one version of the API
// and would serve the other.
func withCRDs(objects map[string]any) {
	const registration, crd = "/apis/apiregistration.k8s.io/v1/apiservices/", "serviceexports.multicluster.x-k8s.io"
	object := func(apiVersion, kind, name string, spec map[string]any) map[string]any {
		return map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name, "namespace": "mcs-system"}, "spec": spec}
	}
	objects["/apis/apps/v1/deployments"] = commandtest.List("apps/v1", "Deployment", object("apps/v1", "Deployment", "mcs-apiserver", nil))
	local := object("apiregistration.k8s.io/v1", "APIService", "v1alpha1.multicluster.x-k8s.io", nil)
	local["metadata"].(map[string]any)["labels"] = map[string]any{"kube-aggregator.kubernetes.io/automanaged": "true"}
	objects[registration+"v1alpha1.multicluster.x-k8s.io"] = local
	objects[registration+"v1beta1.multicluster.x-k8s.io"] = object("apiregistration.k8s.io/v1", "APIService", "v1beta1.multicluster.x-k8s.io",
		map[string]any{"service": map[string]any{"name": "mcs-apiserver", "namespace": "mcs-system"}})
	objects["/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"+crd] = object("apiextensions.k8s.io/v1", "CustomResourceDefinition", crd,
		map[string]any{"versions": []any{map[string]any{"name": "v1alpha1", "served": true}, map[string]any{"name": "v1beta1", "served": true}}})
}

// escaped returns YAML documents that have control characters as escape sequences: others
// are not YAML.
func escaped(t *testing.T, objects []runtime.Object) string {
	t.Helper()
	var documents strings.Builder
	for _, object := range objects {
		encoded, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range string(encoded) {
			if unicode.IsPrint(r) {
				documents.WriteRune(r)
			} else {
				fmt.Fprintf(&documents, `\u%04x`, r)
			}
		}
		documents.WriteString("\n---\n")
	}
	return documents.String()
}

// R242
func TestTextFromClustersIsEscaped(t *testing.T) {
	servers := func(t *testing.T) map[string]string {
		urls := map[string]string{}
		for _, name := range []string{"east", "west"} {
			honest := commandtest.NewAPIServer(t, name, withNorth, withCRDs)
			urls[name] = hostile(t, honest.Config.Handler).URL
		}
		return urls
	}
	invitation, err := plan.NewInvitation("mcs-system", "production"+hostileText, plan.Membership{
		ID: "south", UID: "uid" + hostileText, Access: plan.Access{Server: "https://south.invalid"}, Token: commandtest.Token("peer-east", time.Now().Add(time.Hour)), Secret: "member-south",
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "invitation.yaml")
	if err := os.WriteFile(file, []byte(escaped(t, invitation.Objects())), 0o600); err != nil {
		t.Fatal(err)
	}
	seen := sets.New[string]()
	for _, command := range []string{
		"status east west", "status east -o json", "status east -o yaml",
		"join east west --clusterset production --id east=e --id west=w --server east=https://e.example --server west=https://w.example",
		"join east west --clusterset production --id east=e --id west=w --server east=https://e.example --server west=https://w.example --dry-run",
		"join east west --clusterset production --dry-run",
		"join east west --clusterset production --check --server east=https://192.0.2.1 --request-timeout 1s", "join east west --clusterset production --check -o json --server east=https://192.0.2.1 --request-timeout 1s",
		"join east west --clusterset production --id east=e --id west=w --server east=https://e.example --server west=https://w.example --output-dir " + t.TempDir(),
		"invite west --context east --clusterset production --server https://e.example", "accept -f " + file + " --context east",
		"leave east --from west", "leave east --from west --dry-run", "leave --id north --from east,west", "expel north --from east,west",
		"export web --context east", "unexport web --context east", "explain web --context east", "explain web --context east -o json",
		"doctor --context east --request-timeout 1s", "doctor web --context east --contexts west --request-timeout 1s", "doctor web --context east -o json --request-timeout 1s",
		"test east west --cleanup", "gather east west --request-timeout 1s -f " + filepath.Join(t.TempDir(), "bundle.tar.gz"), "status east --wait --timeout 1s",
		"detach east --yes", "attach east --timeout 1s", "migrate east west", "migrate east west --back",
		"dns enable --context east", "dns disable --context east", "dns check --context east",
		"version east west", "version east -o json", "version east -o yaml",
	} {
		t.Run(command, func(t *testing.T) {
			streams, in, out, errOut := genericiooptions.NewTestIOStreams()
			in.WriteString("y\n")
			args := strings.Fields(command)
			seen.Insert(args[0])
			code := app.Main(streams, append(args, "--kubeconfig", commandtest.Kubeconfig(t, servers(t))))
			text := out.String() + errOut.String()
			for _, r := range text {
				if r != '\n' && !unicode.IsPrint(r) {
					t.Errorf("%q is in the output", r)
				}
			}
			for line := range strings.Lines(text) {
				if strings.HasPrefix(strings.TrimSpace(line), "INJECTED") {
					t.Errorf("%q is a line of its own", line)
				}
			}
			if t.Failed() {
				t.Logf("exit code %d, output:\n%s", code, text)
			}
			if !strings.Contains(text, "evil") {
				t.Errorf("no text of the cluster is in the output, exit code %d:\n%s", code, text)
			}
		})
	}
	for _, cmd := range app.NewCommand(genericiooptions.NewTestIOStreamsDiscard()).Commands() {
		// The page of ui runs until it is interrupted. It prints nothing that clusters say, and its own
		// tests show how it is shown.
		if !seen.Has(cmd.Name()) && cmd.Name() != "ui" {
			t.Errorf("kubectl mcs %s is not among the commands", cmd.Name())
		}
	}
}
