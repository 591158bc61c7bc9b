// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package localcluster runs whole Kubernetes clusters on one machine, without
// containers: real control planes, kube-proxy and CoreDNS, each node in a
// network namespace of its own. Only the kubelet, its container runtime and the
// scheduler are replaced: test/nodeagent runs Pods as processes.
//
// Clusters outlive the process that started them. Their state is in one
// directory, so that any later process can use, impair and stop them. Clusters
// of different directories are independent of each other.
package localcluster

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster/fabric"
)

// Set is the clusters of one directory.
type Set struct {
	// Root is the root of the repository, with the programs in bin/.
	Root string
	// Dir holds the state of the clusters.
	Dir string
	// Nodes is the number of nodes of clusters that Up adds, by their names. It defaults to 1.
	Nodes map[string]int
	// Artifacts is the subdirectory of artifacts/ that Up installs, by default "default", or
	// NoArtifacts.
	Artifacts string
	// Images is the directory of the OCI image layout with the images of mcs-apiserver, by
	// default the one that make test-images builds.
	Images string
	// Progress reports progress.
	Progress func(format string, args ...any)
}

// NoArtifacts lets Up install nothing, and CoreDNS serve no names of ClusterSets.
const NoArtifacts = "none"

// state is the persistent state of a Set.
type state struct {
	// Subnet numbers the network between the clusters.
	Subnet int
	// Clusters are the names of all clusters; the index of a cluster is its number.
	Clusters []string
	// Nodes is the number of nodes of each cluster. It defaults to 1.
	Nodes map[string]int `json:",omitempty"`
	// Faults are the impaired links.
	Faults []fabric.Fault
}

// Open returns the Set of a repository, which may have no clusters yet.
func Open(root string) (*Set, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	started := time.Now()
	var mu sync.Mutex
	return &Set{
		Root: root,
		Dir:  filepath.Join(root, ".local"),
		Progress: func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprintf(os.Stderr, "%5.1f s  %s\n", time.Since(started).Seconds(), fmt.Sprintf(format, args...))
		},
	}, nil
}

// id distinguishes the network namespaces and interfaces of this set from those of others.
func (s *Set) id() string {
	sum := sha256.Sum256([]byte(s.Dir))
	return hex.EncodeToString(sum[:3])
}

// fabric returns the connections between the clusters. The subnet is needed to build them only.
func (s *Set) fabric(subnet int) *fabric.Fabric {
	return &fabric.Fabric{ID: s.id(), Subnet: subnet, Clusterset: filepath.Join(s.Root, "bin", "test", "clusterset")}
}

func (s *Set) stateFile() string { return filepath.Join(s.Dir, "clusters.json") }

func (s *Set) load() (state, error) {
	state := state{Nodes: map[string]int{}}
	data, err := os.ReadFile(s.stateFile())
	if errors.Is(err, os.ErrNotExist) {
		return state, nil
	} else if err != nil {
		return state, err
	}
	return state, json.Unmarshal(data, &state)
}

func (s *Set) save(state state) error {
	data, err := json.MarshalIndent(state, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(s.stateFile(), data, 0o644)
}

// Clusters returns the clusters of the set.
func (s *Set) Clusters() ([]*Cluster, error) {
	state, err := s.load()
	if err != nil {
		return nil, err
	}
	return s.clustersOf(state), nil
}

func (s *Set) clustersOf(state state) []*Cluster {
	fabric := s.fabric(state.Subnet)
	// By turns, so that packets from one cluster to another meet each mode at one end.
	proxyModes := []string{"nftables", "iptables"}
	var clusters []*Cluster
	for number, name := range state.Clusters {
		admin := Admin{bin: filepath.Join(s.Root, "bin", "kubernetes"), dir: filepath.Join(s.Dir, name)}
		network := fabric.Network(name, number, max(1, state.Nodes[name]), admin.dir)
		clusters = append(clusters, &Cluster{
			Name:       name,
			Admin:      admin,
			network:    network,
			components: &components{admin: admin, network: network, zone: name + "-zone", proxyMode: proxyModes[number%len(proxyModes)], root: s.Root, images: s.images()},
			artifacts:  cmp.Or(s.Artifacts, "default"),
			report:     s.Progress,
		})
	}
	return clusters
}

// networksOf returns the networks of clusters.
func networksOf(clusters []*Cluster) []*fabric.Network {
	var networks []*fabric.Network
	for _, cluster := range clusters {
		networks = append(networks, cluster.network)
	}
	return networks
}

// Cluster returns one cluster by its name.
func (s *Set) Cluster(name string) (*Cluster, error) {
	clusters, err := s.Clusters()
	if err != nil {
		return nil, err
	}
	for _, cluster := range clusters {
		if cluster.Name == name {
			return cluster, nil
		}
	}
	return nil, fmt.Errorf("cluster %q does not exist: start it with 'make up CLUSTERS=%q'", name, name)
}

// Up starts the named clusters in addition to the existing ones, and returns
// when all clusters are ready. Running components are not restarted.
func (s *Set) Up(ctx context.Context, names ...string) error {
	if os.Geteuid() != 0 {
		return errors.New("creating network namespaces requires root: run this command as root")
	}
	clusters, err := s.connect(names)
	if err != nil {
		return err
	}
	if err := s.linkImages(); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, cluster := range clusters {
		group.Go(func() error {
			if err := cluster.up(ctx); err != nil {
				return fmt.Errorf("cluster %s: %w", cluster.Name, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return s.writeKubeconfig(clusters)
}

// connect adds the named clusters to the existing ones, and connects all of them. It returns them.
func (s *Set) connect(names []string) ([]*Cluster, error) {
	// A free subnet is in use when there is an interface in it: other sets, of packages whose tests
	// run at the same time, choose theirs after that.
	unlock, err := fabric.Lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	state, err := s.addClusters(names)
	if err != nil {
		return nil, err
	}
	clusters := s.clustersOf(state)
	if err := s.fabric(state.Subnet).Build(networksOf(clusters)); err != nil {
		return nil, fmt.Errorf("create the network between the clusters: %w", err)
	}
	return clusters, nil
}

// AddOutsider connects a node to the clusters that belongs to none of them, and to which they
// route the given CIDRs in addition to its own. Programs of a test listen there as another
// cluster would. It is removed with the clusters.
func (s *Set) AddOutsider(name string, cidrs ...string) (*fabric.Node, error) {
	state, err := s.load()
	if err != nil {
		return nil, err
	}
	return s.fabric(state.Subnet).AddOutsider(name, networksOf(s.clustersOf(state)), cidrs)
}

// addClusters adds clusters to the state that do not exist yet, and returns the state.
func (s *Set) addClusters(names []string) (state, error) {
	state, err := s.load()
	if err != nil {
		return state, err
	}
	for _, name := range names {
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			return state, fmt.Errorf("invalid cluster name %q: %s", name, problems[0])
		}
		nodes := cmp.Or(s.Nodes[name], 1)
		if nodes < 1 || nodes > fabric.MaxNodes {
			return state, fmt.Errorf("invalid number of nodes %d of cluster %q: must be between 1 and %d", nodes, name, fabric.MaxNodes)
		}
		if !slices.Contains(state.Clusters, name) {
			state.Clusters = append(state.Clusters, name)
			state.Nodes[name] = nodes
		}
	}
	if len(state.Clusters) > fabric.MaxClusters {
		return state, fmt.Errorf("too many clusters: %d, at most %d are supported", len(state.Clusters), fabric.MaxClusters)
	}
	if state.Subnet == 0 {
		if state.Subnet, err = fabric.FreeSubnet(); err != nil {
			return state, err
		}
	}
	return state, s.save(state)
}

// Down stops all clusters and removes their state, including what a crash has
// left behind.
func (s *Set) Down(ctx context.Context) error {
	clusters, err := s.Clusters()
	if err != nil {
		return err
	}
	var group errgroup.Group
	for _, cluster := range clusters {
		group.Go(func() error { return cluster.down(ctx) })
	}
	if err := errors.Join(group.Wait(), s.fabric(0).Remove()); err != nil {
		return err
	}
	return os.RemoveAll(s.Dir)
}

// Kubeconfig returns a kubeconfig file with a context for every cluster, named
// after the cluster.
func (s *Set) Kubeconfig() string { return filepath.Join(s.Dir, "kubeconfig") }

func (s *Set) writeKubeconfig(clusters []*Cluster) error {
	all := clientcmdapi.NewConfig()
	for _, cluster := range clusters {
		one, err := clientcmd.LoadFromFile(cluster.Kubeconfig())
		if err != nil {
			return err
		}
		context := one.Contexts[one.CurrentContext]
		all.Clusters[cluster.Name] = one.Clusters[context.Cluster]
		all.AuthInfos[cluster.Name] = one.AuthInfos[context.AuthInfo]
		all.Contexts[cluster.Name] = &clientcmdapi.Context{Cluster: cluster.Name, AuthInfo: cluster.Name}
		if all.CurrentContext == "" {
			all.CurrentContext = cluster.Name
		}
	}
	return clientcmd.WriteToFile(*all, s.Kubeconfig())
}
