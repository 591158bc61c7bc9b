// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stateful tests the example of docs/stateful.md: an etcd with a member in each of three
// clusters, which find each other by their names in the ClusterSet.
package stateful

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster"
)

const (
	// namespace is that of the example.
	namespace = "store"
	// ttl is how long a member of the ClusterSet may be silent in these tests: the minimum.
	ttl = 30 * time.Second
)

var (
	set               *localcluster.Set
	east, west, north *localcluster.Cluster
)

func TestMain(m *testing.M) { os.Exit(localcluster.RunTests(m, start)) }

// start joins the clusters as docs/stateful.md says: with the CIDRs of their Pods.
func start(ctx context.Context, clusters *localcluster.Set) (err error) {
	set = clusters
	if err := set.Up(ctx, "east", "west", "north"); err != nil {
		return err
	}
	join := []string{"mcs", "join", "--clusterset", "demo"}
	for name, cluster := range map[string]**localcluster.Cluster{"east": &east, "west": &west, "north": &north} {
		if *cluster, err = set.Cluster(name); err != nil {
			return err
		}
		join = append(join, name, "--id", name+"="+name, "--allowed-cidrs", name+"="+strings.Join((*cluster).PodCIDRs(), ","))
	}
	if output, err := set.Kubectl(ctx, join...); err != nil {
		return fmt.Errorf("join the clusters: %w\n%s", err, output)
	}
	for _, cluster := range all() {
		for _, member := range all() {
			if member == cluster {
				continue
			}
			if output, err := cluster.Kubectl(ctx, "annotate", "secret", "member-"+member.Name, "-n", "mcs-system", "clusterset.mcs-apiserver.io/ttl="+ttl.String()); err != nil {
				return fmt.Errorf("set the TTL of %s in %s: %w\n%s", member.Name, cluster.Name, err, output)
			}
		}
	}
	return nil
}

func all() []*localcluster.Cluster { return []*localcluster.Cluster{east, west, north} }

// example returns a directory of the example.
func example(name string) string {
	return filepath.Join(set.Root, "artifacts", "examples", "etcd", name)
}

// nameOf returns the name of the etcd member in a cluster.
func nameOf(cluster *localcluster.Cluster) string {
	return "etcd-0." + cluster.Name + ".etcd." + namespace + ".svc.clusterset.local"
}

// etcdctl runs etcdctl in the Pod of a cluster.
func etcdctl(ctx context.Context, in *localcluster.Cluster, args ...string) (string, error) {
	output, err := in.Kubectl(ctx, append([]string{"exec", "-n", namespace, "etcd-0", "--", "etcdctl"}, args...)...)
	output = strings.TrimSpace(output)
	if err != nil {
		return output, fmt.Errorf("%s: etcdctl %s: %w: %s", in.Name, strings.Join(args, " "), err, output)
	}
	return output, nil
}

// must runs etcdctl in the Pod of a cluster. It must succeed.
func must(t *testing.T, in *localcluster.Cluster, args ...string) string {
	t.Helper()
	return expect.Must(etcdctl(t.Context(), in, args...))(t)
}

// reads returns an error unless the member in a cluster returns a value.
func reads(ctx context.Context, in *localcluster.Cluster, key, want string, flags ...string) error {
	value, err := etcdctl(ctx, in, append([]string{"get", "--print-value-only", key}, flags...)...)
	if err == nil && value != want {
		err = fmt.Errorf("the member in %s has value %q of %s, want %q", in.Name, value, key, want)
	}
	return err
}

// itself lets a member return what it has itself, whatever the others have.
const itself = "--consistency=s"

// lead makes the member in a cluster the leader.
func lead(t *testing.T, cluster *localcluster.Cluster) {
	t.Helper()
	endpoints := make([]string, 0, len(all()))
	for _, each := range all() {
		endpoints = append(endpoints, "http://"+nameOf(each)+":2379")
	}
	id := memberID(t, cluster)
	expect.Eventually(t, "leader in "+cluster.Name, func(ctx context.Context) error {
		_, err := etcdctl(ctx, cluster, "move-leader", id, "--endpoints="+strings.Join(endpoints, ","))
		return err
	})
}

// memberID returns the ID of the etcd member in a cluster, as all members know it.
func memberID(t *testing.T, of *localcluster.Cluster) string {
	t.Helper()
	for _, line := range strings.Split(must(t, east, "member", "list"), "\n") {
		if fields := strings.Split(line, ", "); len(fields) > 2 && fields[2] == of.Name {
			return fields[0]
		}
	}
	t.Fatalf("etcd has no member %s", of.Name)
	return ""
}

// resolve returns the addresses that a name has in a cluster, none if there is no such name.
func resolve(ctx context.Context, in *localcluster.Cluster, name string) (string, error) {
	output, err := in.Kubectl(ctx, "exec", "-n", namespace, "etcd-0", "--", "dig", "+noall", "+comments", "+answer", "+tries=3", "+time=2", name)
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, output)
	}
	if !strings.Contains(output, "status: NOERROR") && !strings.Contains(output, "status: NXDOMAIN") {
		return "", fmt.Errorf("resolve %s: %s", name, output)
	}
	var addresses []string
	for line := range strings.Lines(output) {
		if fields := strings.Fields(line); len(fields) == 5 && fields[3] == "A" {
			addresses = append(addresses, fields[4])
		}
	}
	return strings.Join(addresses, " "), nil
}

// since returns how much time has passed, for logs.
func since(start time.Time) time.Duration { return time.Since(start).Round(100 * time.Millisecond) }
