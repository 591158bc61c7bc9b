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

// fakeMember is a member that serves arbitrary objects, valid or not.
type fakeMember struct {
	id string
	// services are the exported services as JSON objects.
	services iter.Seq[string]
	// silent makes the member never respond, without closing connections.
	silent bool
}

// start starts the fake member and returns the data of its member Secret.
func (f *fakeMember) start(t *testing.T) map[string][]byte {
	t.Helper()
	authority := expect.Must(pki.NewAuthority("fake"))(t)
	pair := expect.Must(authority.Issue(pki.Subject{Name: "fake", IPs: []net.IP{net.ParseIP("127.0.0.1")}}))(t)
	server := httptest.NewUnstartedServer(f)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{expect.Must(tls.X509KeyPair(pair.Cert, pair.Key))(t)}} //nolint:gosec // the versions do not matter here
	server.StartTLS()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	config := clientcmdapi.NewConfig()
	config.Clusters["fake"] = &clientcmdapi.Cluster{Server: server.URL, CertificateAuthorityData: authority.Cert}
	config.AuthInfos["fake"] = &clientcmdapi.AuthInfo{Token: "anything"}
	config.Contexts["fake"] = &clientcmdapi.Context{Cluster: "fake", AuthInfo: "fake"}
	config.CurrentContext = "fake"
	return map[string][]byte{clusterset.MemberSecretClusterID: []byte(f.id), clusterset.MemberSecretKubeconfig: expect.Must(clientcmd.Write(*config))(t)}
}

// ServeHTTP implements http.Handler.
func (f *fakeMember) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.silent {
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
		for item := range f.objects(resource) {
			items = append(items, item)
		}
		fmt.Fprintf(w, `{"apiVersion":%q,"kind":%q,"metadata":{"resourceVersion":"7"},"items":[%s]}`, groupVersion, kind+"List", strings.Join(items, ","))
		return
	}
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		for item := range f.objects(resource) {
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

func (f *fakeMember) objects(resource string) iter.Seq[string] {
	return func(yield func(string) bool) {
		switch resource {
		case "clusterclaims":
			for name, value := range map[string]string{"id.k8s.io": f.id, "clusterset.k8s.io": "everywhere"} {
				if !yield(fmt.Sprintf(`{"metadata":{"name":%q,"uid":%q,"resourceVersion":"7","creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{"value":%q}}`, name, name, value)) {
					return
				}
			}
		case "members":
			yield(fmt.Sprintf(`{"metadata":{"name":%q,"resourceVersion":"7"},"status":{"clusterID":%q,"clusterUID":"uid-of-the-fake","clusterSet":"everywhere","state":"Local","synced":true,"exports":1,"endpoints":0}}`, f.id, f.id))
		case "exportedservices":
			f.services(yield)
		}
	}
}

// exportedService returns an ExportedService in JSON. Its name and additional spec
// fields may be invalid.
func exportedService(ns, name, cluster, service, more string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q,"namespace":%q,"uid":"u-%s","resourceVersion":"7","labels":{"multicluster.kubernetes.io/source-cluster":%q,"multicluster.kubernetes.io/service-name":%q}},`+
		`"spec":{"cluster":%q,"service":%q,"exportedAt":"2020-01-01T00:00:00Z","type":"ClusterSetIP"%s}}`, name, ns, name, cluster, service, cluster, service, more)
}
