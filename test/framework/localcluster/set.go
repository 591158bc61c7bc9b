// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package localcluster runs whole Kubernetes clusters on one machine, without
// containers: real control planes, kube-proxy and CoreDNS, each cluster in a
// network namespace of its own. Only the kubelet and its container runtime are
// replaced: test/nodeagent runs Pods as processes.
//
// Clusters outlive the process that started them. Their state is in one
// directory, so that any later process can use, impair and stop them. Clusters
// of different directories are independent of each other.
package localcluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// maxClusters is limited by the numbering of the clusters' networks.
const maxClusters = 50

// Set is the clusters of one directory.
type Set struct {
	// Root is the root of the repository, with the programs in bin/.
	Root string
	// Dir holds the state of the clusters.
	Dir string
	// Progress reports progress.
	Progress func(format string, args ...any)
}

// state is the persistent state of a Set.
type state struct {
	// Subnet numbers the network between the clusters.
	Subnet int
	// Clusters are the names of all clusters; the index of a cluster is its number.
	Clusters []string
	// Faults are the impaired links.
	Faults []Fault
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

func (s *Set) stateFile() string { return filepath.Join(s.Dir, "clusters.json") }

func (s *Set) load() (state, error) {
	var state state
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
	var clusters []*Cluster
	for number, name := range state.Clusters {
		clusters = append(clusters, &Cluster{Name: name, set: s, number: number, subnet: state.Subnet})
	}
	return clusters, nil
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
	if err := s.addClusters(names); err != nil {
		return err
	}
	clusters, err := s.Clusters()
	if err != nil {
		return err
	}
	if err := s.buildNetwork(clusters); err != nil {
		return fmt.Errorf("create the network between the clusters: %w", err)
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

func (s *Set) addClusters(names []string) error {
	state, err := s.load()
	if err != nil {
		return err
	}
	for _, name := range names {
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			return fmt.Errorf("invalid cluster name %q: %s", name, problems[0])
		}
		if !slices.Contains(state.Clusters, name) {
			state.Clusters = append(state.Clusters, name)
		}
	}
	if len(state.Clusters) > maxClusters {
		return fmt.Errorf("too many clusters: %d, at most %d are supported", len(state.Clusters), maxClusters)
	}
	if state.Subnet == 0 {
		if state.Subnet, err = freeSubnet(); err != nil {
			return err
		}
	}
	return s.save(state)
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
	if err := errors.Join(group.Wait(), s.removeNetwork()); err != nil {
		return err
	}
	return os.RemoveAll(s.Dir)
}

// images returns the directory in which the node agents look up images.
func (s *Set) images() string { return filepath.Join(s.Dir, "images") }

// linkImages maps image names to programs that were built here or are installed
// on this machine. It uses no symbolic links, since containers see this
// directory but not every target of a link.
func (s *Set) linkImages() error {
	if err := os.MkdirAll(s.images(), 0o755); err != nil {
		return err
	}
	programs := map[string]string{
		"mcs-apiserver":  filepath.Join(s.Root, "bin", "mcs-apiserver"),
		"mcs-controller": filepath.Join(s.Root, "bin", "mcs-controller"),
		"coredns":        filepath.Join(s.Root, "bin", "kubernetes", "coredns"),
	}
	// The entry point of an image of upstream's conformance tests.
	if socat, err := exec.LookPath("socat"); err == nil {
		programs["socat"] = socat
	}
	for image, program := range programs {
		if err := linkOrCopy(program, filepath.Join(s.images(), image)); err != nil {
			return err
		}
	}
	return nil
}

// linkOrCopy hard-links a file, or copies it if it is on another file system.
func linkOrCopy(from, to string) error {
	if err := os.Remove(to); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	from, err := filepath.EvalSymlinks(from)
	if err != nil {
		return err
	}
	if os.Link(from, to) == nil {
		return nil
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o755)
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
