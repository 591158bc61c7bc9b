// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster/fabric"
)

// breakage is a way to break the service, undone when its test ends.
type breakage struct {
	name string
	// breaks breaks the service, and returns the namespace in which it does not respond.
	breaks func(t *testing.T) (namespace string)
	// hop and reason are what the doctor should say, and want is in its message.
	hop, reason, want string
}

var breakages = []breakage{
	{"no namespace", func(t *testing.T) string {
		namespace := localcluster.CreateNamespace(t, "doctor-east-only", east)
		deploy(t, namespace)
		return namespace
	}, "namespace", "", "does not exist in this cluster"},
	{"no endpoints", func(t *testing.T) string {
		east.MustKubectl(t, "scale", "deployment/web", "--replicas=0", "-n", namespace)
		after(t, east, "scale", "deployment/web", "--replicas=1", "-n", namespace)
		return namespace
	}, "endpoints", "", "no endpoints"},
	{"wrong port", func(t *testing.T) string {
		patch := func(port int) []string {
			return []string{"patch", "service", "web", "-n", namespace, "--type=json", "-p", fmt.Sprintf(`[{"op":"replace","path":"/spec/ports/0/targetPort","value":%d}]`, port)}
		}
		east.MustKubectl(t, patch(9999)...)
		after(t, east, patch(8080)...)
		return namespace
	}, "pods", "", "refuse connections"},
	{"conflicting type", func(t *testing.T) string {
		apply(t, west, namespace, `
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, clusterIP: None, ports: [{name: tcp, port: 80, targetPort: 8080}]}
---
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceExport
metadata: {name: web}
`)
		after(t, west, "delete", "serviceexport/web", "service/web", "-n", namespace)
		return namespace
	}, "conflicts", "TypeConflict", "type"},
	{"cut link", func(t *testing.T) string {
		expect.NoError(t, set.Impair(t.Context(), fabric.Fault{Clusters: [2]string{"east", "west"}, Cut: true}))
		t.Cleanup(func() { expect.NoError(t, set.Repair(context.Background(), "east", "west")) })
		return namespace
	}, "members", "Unreachable", "last seen"},
	{"expired credential", func(t *testing.T) string {
		changeMember(t, func(data map[string]string) { data["kubeconfig"] = withToken(t, data["kubeconfig"], expiredToken()) })
		return namespace
	}, "credentials", "Unauthorized", "expired"},
	{"wrong ID", func(t *testing.T) string {
		changeMember(t, func(data map[string]string) { data["cluster-id"] = base64.StdEncoding.EncodeToString([]byte("north")) })
		return namespace
	}, "members", "WrongClusterID", "Refused"},
	{"no DNS block", func(t *testing.T) string {
		rewriteCorefile(t)
		return namespace
	}, "dns", "", "server block"},
	{"kube-proxy stopped", func(t *testing.T) string {
		expect.NoError(t, west.Kill("kube-proxy"))
		t.Cleanup(func() { expect.NoError(t, west.Start(context.Background(), "kube-proxy")) })
		namespace := localcluster.CreateNamespace(t, "doctor-late", east, west) // of which it knows nothing
		deploy(t, namespace)
		return namespace
	}, "proxy", "", "does not route"},
	{"packets are dropped", func(t *testing.T) string {
		inNode(t, west, `table inet doctor_block { chain forward { type filter hook forward priority 0; tcp dport 8080 drop; }; }`, "nft", "-f", "-")
		t.Cleanup(func() { inNode(t, west, "", "nft", "delete", "table", "inet", "doctor_block") })
		return namespace
	}, "pods", "", "packets are dropped"},
	{"server is down", func(t *testing.T) string {
		west.MustKubectl(t, "scale", "deployment/mcs-apiserver", "-n", "mcs-system", "--replicas=0")
		after(t, west, "rollout", "status", "deployment/mcs-apiserver", "-n", "mcs-system", "--timeout=100s")
		after(t, west, "scale", "deployment/mcs-apiserver", "-n", "mcs-system", "--replicas=2")
		return namespace
	}, "server", "", "replicas"},
	{"CRD in the way", func(t *testing.T) string {
		mcs := func(ctx context.Context, args ...string) {
			if output, err := set.Kubectl(ctx, append([]string{"mcs"}, args...)...); err != nil {
				t.Logf("kubectl mcs %s: %v: %s", strings.Join(args, " "), err, output)
			}
		}
		mcs(t.Context(), "detach", "west", "--yes")
		t.Cleanup(func() { mcs(context.Background(), "attach", "west") })
		west.MustKubectl(t, "apply", "-f", expect.Manifest(t, "%s", foreignCRD))
		after(t, west, "delete", "crd", "serviceexports.multicluster.x-k8s.io")
		mcs(t.Context(), "attach", "west", "--timeout", "5s") // which is refused
		return namespace
	}, "registration", "RegistrationRefused", "serviceexports.multicluster.x-k8s.io"},
}

// R549: of every way in which the service is broken, the doctor names the cause, and nothing else as one. When
// that is repaired, nothing is broken.
func TestDoctorNamesTheCause(t *testing.T) {
	localcluster.CreateNamespace(t, namespace, east, west)
	deploy(t, namespace)
	healthy(t, namespace)
	table := []string{"breakage | hop | message | what to do"}
	for _, test := range breakages {
		t.Run(strings.ReplaceAll(test.name, " ", "-"), func(t *testing.T) {
			broken := test.breaks(t)
			var last report
			expect.Within(t, 2*time.Minute, "diagnosis", func(ctx context.Context) (err error) {
				if last, err = see(ctx, broken); err != nil {
					return err
				}
				if first := last.FirstBroken; last.Verdict != "Broken" || first == nil || first.Hop != test.hop || first.Reason != test.reason || !strings.Contains(first.Message, test.want) {
					return fmt.Errorf("first broken is %+v", first)
				}
				for _, check := range last.Checks { // some follow a moment later
					if check.Result == "Broken" && check.Hop != test.hop && check.ConsequenceOf != test.hop {
						return fmt.Errorf("also broken: %+v", check)
					}
				}
				return nil
			})
			first := last.FirstBroken
			if first.Remedy+first.Command == "" || first.Documentation == "" {
				t.Errorf("what to do is missing in %+v", first)
			}
			table = append(table, strings.Join([]string{test.name, first.Hop, strings.TrimPrefix(first.Reason+": "+first.Message, ": "), first.Remedy + "; `" + first.Command + "`; " + first.Documentation}, " | "))
			if pods := west.MustKubectl(t, "get", "pods", "-A", "-l", "clusterset.mcs-apiserver.io/doctor", "-o", "name"); pods != "" && !strings.Contains(pods, "No resources") {
				t.Errorf("left behind: %s", pods)
			}
		})
		healthy(t, namespace) // again
	}
	t.Log(strings.Join(table, "\n"))
}

// changeMember changes the Secret with which the west reads the east, until the test ends.
func changeMember(t *testing.T, change func(data map[string]string)) {
	t.Helper()
	text := west.MustKubectl(t, "get", "secret", "member-east", "-n", "mcs-system", "-o", "json")
	var secret struct{ Data map[string]string }
	expect.NoError(t, json.Unmarshal([]byte(text), &secret))
	patch := func() string {
		return string(expect.Must(json.Marshal(map[string]any{"data": secret.Data}))(t))
	}
	before := patch()
	change(secret.Data)
	west.MustKubectl(t, "patch", "secret", "member-east", "-n", "mcs-system", "--type=merge", "-p", patch())
	after(t, west, "patch", "secret", "member-east", "-n", "mcs-system", "--type=merge", "-p", before)
}

var tokenLine = regexp.MustCompile(`(?m)token: .*$`)

// withToken replaces the token in a kubeconfig.
func withToken(t *testing.T, encoded, token string) string {
	t.Helper()
	kubeconfig := expect.Must(base64.StdEncoding.DecodeString(encoded))(t)
	return base64.StdEncoding.EncodeToString(tokenLine.ReplaceAll(kubeconfig, []byte("token: "+token)))
}

// expiredToken returns a token that was valid an hour ago, if anybody had signed it.
func expiredToken() string {
	encode := base64.RawURLEncoding.EncodeToString
	now := time.Now()
	claims := fmt.Sprintf(`{"sub":"system:serviceaccount:mcs-system:peer-west","iat":%d,"exp":%d}`, now.Add(-2*time.Hour).Unix(), now.Add(-time.Hour).Unix())
	return encode([]byte(`{"alg":"RS256"}`)) + "." + encode([]byte(claims)) + "." + encode([]byte("signature"))
}

// rewriteCorefile removes the server block for clusterset.local, until the test ends.
func rewriteCorefile(t *testing.T) {
	t.Helper()
	const corefile = `.:53 {
    errors
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        pods verified
        ttl 1
    }
    prometheus :9153
    reload 2s 1s
}
`
	write := func(text string) []string {
		patch := expect.Must(json.Marshal(map[string]any{"data": map[string]string{"Corefile": text}}))(t)
		return []string{"patch", "configmap", "coredns", "-n", "kube-system", "--type=merge", "-p", string(patch)}
	}
	before := west.MustKubectl(t, "get", "configmap", "coredns", "-n", "kube-system", "-o", "jsonpath={.data.Corefile}")
	// The next breakage may stop kube-proxy, which has to know the Pod that stays before that.
	t.Cleanup(func() {
		expect.EventuallyAfterTest(t, "single DNS server", func(ctx context.Context) error {
			endpoints, err := west.Kubectl(ctx, "get", "endpointslices", "-n", "kube-system", "-l", "kubernetes.io/service-name=kube-dns",
				"-o", "jsonpath={.items[*].endpoints[*].conditions.terminating}")
			if err == nil && strings.Contains(endpoints, "true") {
				err = fmt.Errorf("terminating: %s", endpoints)
			}
			return err
		})
	})
	after(t, west, "rollout", "status", "deployment/coredns", "-n", "kube-system", "--timeout=100s")
	west.MustKubectl(t, write(corefile)...)
	west.MustKubectl(t, "rollout", "restart", "deployment/coredns", "-n", "kube-system")
	after(t, west, "rollout", "restart", "deployment/coredns", "-n", "kube-system")
	after(t, west, write(before)...)
}

// foreignCRD is that of another implementation.
const foreignCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: serviceexports.multicluster.x-k8s.io
  annotations: {api-approved.kubernetes.io: "https://github.com/kubernetes-sigs/mcs-api"}
spec:
  group: multicluster.x-k8s.io
  scope: Namespaced
  names: {plural: serviceexports, singular: serviceexport, kind: ServiceExport, listKind: ServiceExportList}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`
