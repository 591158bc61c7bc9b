// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package imports

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/pki"
)

// liar is a member that no mcs-apiserver would be: it says whatever it is told.
type liar struct {
	id string
	// services are what it exports: objects in JSON.
	services iter.Seq[string]
	// silent makes it answer nothing at all, without closing connections.
	silent bool
}

// start returns what a Secret that makes it a member holds.
func (l *liar) start(t *testing.T) map[string][]byte {
	t.Helper()
	authority := expect.Must(pki.NewAuthority("liar"))(t)
	pair := expect.Must(authority.Issue(pki.Subject{Name: "liar", IPs: []net.IP{net.ParseIP("127.0.0.1")}}))(t)
	server := httptest.NewUnstartedServer(l)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{expect.Must(tls.X509KeyPair(pair.Cert, pair.Key))(t)}} //nolint:gosec // the versions do not matter here
	server.StartTLS()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	config := clientcmdapi.NewConfig()
	config.Clusters["liar"] = &clientcmdapi.Cluster{Server: server.URL, CertificateAuthorityData: authority.Cert}
	config.AuthInfos["liar"] = &clientcmdapi.AuthInfo{Token: "anything"}
	config.Contexts["liar"] = &clientcmdapi.Context{Cluster: "liar", AuthInfo: "liar"}
	config.CurrentContext = "liar"
	return map[string][]byte{clusterset.MemberSecretClusterID: []byte(l.id), clusterset.MemberSecretKubeconfig: expect.Must(clientcmd.Write(*config))(t)}
}

// ServeHTTP implements http.Handler.
func (l *liar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if l.silent {
		<-r.Context().Done()
		return
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	resource, groupVersion := parts[len(parts)-1], strings.Join(parts[1:3], "/")
	kind := map[string]string{
		"clusterclaims": "ClusterClaim", "members": "Member", "exportedservices": "ExportedService", "exportedendpointslices": "ExportedEndpointSlice",
	}[resource]
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Query().Get("watch") == "" {
		var items []string
		for item := range l.objects(resource) {
			items = append(items, item)
		}
		fmt.Fprintf(w, `{"apiVersion":%q,"kind":%q,"metadata":{"resourceVersion":"7"},"items":[%s]}`, groupVersion, kind+"List", strings.Join(items, ","))
		return
	}
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		for item := range l.objects(resource) {
			var object map[string]any
			if json.Unmarshal([]byte(item), &object) == nil {
				object["apiVersion"], object["kind"] = groupVersion, kind
				text, _ := json.Marshal(object)
				item = string(text)
			}
			if _, err := fmt.Fprintf(w, `{"type":"ADDED","object":%s}`+"\n", item); err != nil {
				return
			}
		}
		fmt.Fprintf(w, `{"type":"BOOKMARK","object":{"apiVersion":%q,"kind":%q,"metadata":{"resourceVersion":"7","annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n", groupVersion, kind)
	}
	w.(http.Flusher).Flush()
	<-r.Context().Done()
}

func (l *liar) objects(resource string) iter.Seq[string] {
	return func(yield func(string) bool) {
		switch resource {
		case "clusterclaims":
			for name, value := range map[string]string{"id.k8s.io": l.id, "clusterset.k8s.io": "everywhere"} {
				if !yield(fmt.Sprintf(`{"metadata":{"name":%q,"uid":%q,"resourceVersion":"7","creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{"value":%q}}`, name, name, value)) {
					return
				}
			}
		case "members":
			yield(fmt.Sprintf(`{"metadata":{"name":%q,"resourceVersion":"7"},"status":{"clusterID":%q,"clusterUID":"uid-of-the-liar","clusterSet":"everywhere","state":"Local","synced":true,"exports":1,"endpoints":0}}`, l.id, l.id))
		case "exportedservices":
			l.services(yield)
		}
	}
}

// exportedService is a service in JSON. The name and what else is in the spec
// may be anything.
func exportedService(ns, name, cluster, service, more string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q,"namespace":%q,"uid":"u-%s","resourceVersion":"7","labels":{"multicluster.kubernetes.io/source-cluster":%q,"multicluster.kubernetes.io/service-name":%q}},`+
		`"spec":{"cluster":%q,"service":%q,"exportedAt":"2020-01-01T00:00:00Z","type":"ClusterSetIP"%s}}`, name, ns, name, cluster, service, cluster, service, more)
}
