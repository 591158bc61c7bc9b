// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package generator plays members of a ClusterSet that export any number of services: the API
// that other clusters read them by, over TLS, without clusters behind it. It holds no objects. They
// follow from numbers and are written from templates, so that hundreds of members with tens
// of thousands of services each cost little beside the programs that are measured.
//
// Lists, streaming lists and watches have the semantics of Kubernetes as far as reflectors
// depend on them: resource versions, pages, bookmarks, timeouts and expired versions. Objects are
// selected by their source cluster only. Any token is accepted.
package generator

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/pki"
)

// Config configures a Member.
type Config struct {
	ID, ClusterSet string
	// Number tells members apart: their addresses and UIDs differ.
	Number int
	// Shapes are those of the services that the member may export. It exports none at first.
	Shapes []Shape
}

// Member is a running member.
type Member struct {
	config    Config
	state     *state
	gate      *gate
	server    *http.Server
	address   net.Addr
	authority []byte
	served    chan struct{}

	mu    sync.Mutex
	peers []string
	entry []byte // this member in its members list
}

// Change is a change of an EndpointSlice: one endpoint has another address, Address.
type Change struct {
	Address netip.Addr

	made time.Time
	once sync.Once
	sent chan struct{}
	at   time.Time
}

// Sent waits until the change is sent by a watch, and returns when it was.
func (c *Change) Sent(ctx context.Context) (time.Time, error) {
	select {
	case <-ctx.Done():
		return time.Time{}, fmt.Errorf("change to %s is not sent: no watch is open: %w", c.Address, ctx.Err())
	case <-c.sent:
		return c.at, nil
	}
}

// sentAt notes when the change was sent. Only the first time counts.
func (c *Change) sentAt(at time.Time) {
	c.once.Do(func() {
		c.at = at
		close(c.sent)
	})
}

// Start starts a member at a port of its own. It must be closed.
func Start(config Config) (*Member, error) {
	m := &Member{config: config, gate: newGate(), served: make(chan struct{})}
	var err error
	if m.state, err = newState(config.Number, config.ID, config.Shapes); err != nil {
		return nil, err
	}
	m.SetPeers(nil)
	authority, err := pki.NewAuthority(config.ID) // members of a ClusterSet share none
	if err != nil {
		return nil, err
	}
	m.authority = authority.Cert
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	m.address = listener.Addr()
	pair, err := authority.Issue(pki.Subject{Name: config.ID, IPs: []net.IP{m.address.(*net.TCPAddr).IP}})
	if err != nil {
		listener.Close()
		return nil, err
	}
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		listener.Close()
		return nil, err
	}
	m.server = &http.Server{
		Handler: m, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
	}
	go func() {
		defer close(m.served)
		_ = m.server.ServeTLS(gatedListener{listener, m.gate}, "", "") // until it is closed
	}()
	return m, nil
}

// Close ends all connections and stops the member.
func (m *Member) Close() {
	m.gate.open() // what waits for it would not end
	_ = m.server.Close()
	<-m.served
}

// ID returns the cluster ID of the member.
func (m *Member) ID() string { return m.config.ID }

// Silence makes the member answer nothing, on old and new connections, until Resume.
func (m *Member) Silence() { m.gate.close() }

// Resume makes the member answer again, also what it was asked meanwhile.
func (m *Member) Resume() { m.gate.open() }

// Export makes the member export a number of services of a shape: the first ones.
func (m *Member) Export(shape, count int) {
	m.state.export(shape, count)
	m.refresh()
}

// Exported returns how many services of a shape the member exports.
func (m *Member) Exported(shape int) int { return m.state.exported(shape) }

// Totals returns how many services and endpoints the member exports.
func (m *Member) Totals() (services, endpoints int) { return m.state.totals() }

// Change changes an EndpointSlice that the member exports. The number determines the new address.
func (m *Member) Change(slice Slice, number uint32) *Change {
	change := changeAt(number)
	m.state.change(slice, change)
	return change
}

// SetPeers sets which clusters the member lists as members.
func (m *Member) SetPeers(peers []string) {
	m.mu.Lock()
	m.peers = slices.Clone(peers)
	m.mu.Unlock()
	m.refresh()
}

// refresh encodes the entry of this member in its members list.
func (m *Member) refresh() {
	m.mu.Lock()
	defer m.mu.Unlock()
	services, endpoints := m.state.totals()
	claimed := epoch
	entry, err := json.Marshal(&clustersetv1alpha1.Member{
		TypeMeta:   metav1.TypeMeta{APIVersion: clustersetv1alpha1.SchemeGroupVersion.String(), Kind: "Member"},
		ObjectMeta: metav1.ObjectMeta{Name: m.config.ID, UID: m.uid(), ResourceVersion: "1", CreationTimestamp: epoch},
		Status: clustersetv1alpha1.MemberStatus{
			ClusterID: m.config.ID, ClusterUID: m.uid(), ClusterSet: m.config.ClusterSet, State: clustersetv1alpha1.MemberLocal, Synced: true, IDClaimedAt: &claimed,
			Exports: int32(services), Endpoints: int32(endpoints), Peers: m.peers, //nolint:gosec // a member exports fewer
		},
	})
	if err != nil {
		panic(err) // API types can be encoded
	}
	m.entry = entry
}

func (m *Member) uid() types.UID { return types.UID(uid(m.config.Number, 0)) }

// Secret returns the data of the member Secret, with additional keys such as limits.
func (m *Member) Secret(keys map[string]string) (map[string][]byte, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters[m.config.ID] = &clientcmdapi.Cluster{Server: "https://" + m.address.String(), CertificateAuthorityData: m.authority}
	config.AuthInfos["peer"] = &clientcmdapi.AuthInfo{Token: "anything"}
	config.Contexts[m.config.ID] = &clientcmdapi.Context{Cluster: m.config.ID, AuthInfo: "peer"}
	config.CurrentContext = m.config.ID
	kubeconfig, err := clientcmd.Write(*config)
	if err != nil {
		return nil, err
	}
	data := map[string][]byte{clusterset.MemberSecretClusterID: []byte(m.config.ID), clusterset.MemberSecretKubeconfig: kubeconfig}
	for key, value := range keys {
		data[key] = []byte(value)
	}
	return data, nil
}
