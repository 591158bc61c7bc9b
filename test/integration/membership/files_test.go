// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// access is what a cluster declares for a peer, as in docs/clustersets.md.
const access = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: peer-%[1]s, namespace: mcs-system}
automountServiceAccountToken: false
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "mcs-apiserver:peer:%[1]s"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "mcs-apiserver:peer"}
subjects: [{kind: ServiceAccount, name: peer-%[1]s, namespace: mcs-system}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: "mcs-apiserver:peer:%[1]s", namespace: mcs-system}
rules: [{apiGroups: [""], resources: [serviceaccounts/token], resourceNames: [peer-%[1]s], verbs: [create]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: "mcs-apiserver:peer:%[1]s", namespace: mcs-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: "mcs-apiserver:peer:%[1]s"}
subjects: [{kind: ServiceAccount, name: peer-%[1]s, namespace: mcs-system}]
`

const member = `
apiVersion: v1
kind: Secret
metadata: {name: member-%[1]s, namespace: mcs-system}
type: clusterset.mcs-apiserver.io/member
data:
  cluster-id: %[2]s
  kubeconfig: %[3]s
`

const claims = `
apiVersion: multicluster.k8s.io/v1
kind: ClusterClaim
metadata: {name: id.k8s.io}
spec: {value: %[1]s}
---
apiVersion: multicluster.k8s.io/v1
kind: ClusterClaim
metadata: {name: clusterset.k8s.io}
spec: {value: %[2]s}
`

// peerKubeconfig returns the kubeconfig for a cluster with a token.
func peerKubeconfig(t *testing.T, cluster, token string) []byte {
	t.Helper()
	config := expect.Must(clientcmd.LoadFromFile(kubeconfig(t)))(t)
	only := clientcmdapi.NewConfig()
	only.Clusters[cluster] = config.Clusters[config.Contexts[cluster].Cluster]
	only.AuthInfos[cluster] = &clientcmdapi.AuthInfo{Token: token}
	only.Contexts[cluster], only.CurrentContext = &clientcmdapi.Context{Cluster: cluster, AuthInfo: cluster}, cluster
	expect.NoError(t, clientcmdapi.FlattenConfig(only))
	return expect.Must(clientcmd.Write(*only))(t)
}

// R390, R410: clusters are joined from files by kubectl apply alone, and applying them again changes
// nothing. The tokens in the files are exchanged at first contact.
func TestClustersJoinFromFiles(t *testing.T) {
	ns := clusters.CreateNamespace(t, "files")
	t.Cleanup(func() { leave(t, "east", "west") })
	peers, directories := map[string]string{"east": "west", "west": "east"}, map[string]string{}
	encode := base64.StdEncoding.EncodeToString
	write := func(cluster, name, content string) {
		expect.NoError(t, os.WriteFile(filepath.Join(directories[cluster], name), []byte(content), 0o600))
	}
	for cluster, peer := range peers {
		directories[cluster] = t.TempDir()
		write(cluster, "1-access.yaml", fmt.Sprintf(access, peer))
		kubectl(t, "--context", cluster, "apply", "-f", directories[cluster])
	}
	for cluster, peer := range peers {
		token := kubectl(t, "--context", peer, "create", "token", "-n", "mcs-system", "peer-"+cluster, "--duration=24h")
		write(cluster, "2-members.yaml", fmt.Sprintf(member, peer, encode([]byte(peer)), encode(peerKubeconfig(t, peer, strings.TrimSpace(token)))))
		write(cluster, "3-claims.yaml", fmt.Sprintf(claims, cluster, clusterSet))
	}
	for cluster := range peers {
		kubectl(t, "--context", cluster, "apply", "-f", directories[cluster])
	}
	export(t, east(), ns, "web")
	west().AwaitImport(t, ns, "web", "east")
	export(t, west(), ns, "other")
	east().AwaitImport(t, ns, "other", "west")
	awaitLongTokens(t)
	for cluster := range peers {
		expectUnchanged(t, cluster, directories[cluster])
	}
	for cluster, peer := range peers {
		if state := kubectl(t, "--context", cluster, "get", "member", peer, "-o", "jsonpath={.status.state}"); state != "Connected" {
			t.Errorf("%s: %s is %s", cluster, peer, state)
		}
	}
}

// expectUnchanged applies files again, which must not change anything.
func expectUnchanged(t *testing.T, cluster, directory string) {
	t.Helper()
	for _, line := range strings.Split(strings.TrimSpace(kubectl(t, "--context", cluster, "apply", "-f", directory)), "\n") {
		if !strings.HasSuffix(line, " unchanged") {
			t.Errorf("%s: applying the files again: %s", cluster, line)
		}
	}
}
