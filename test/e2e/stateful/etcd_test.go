// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package stateful

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster"
)

// deploy applies the example to all clusters, unless a test did, and waits until all members are ready.
func deploy(t *testing.T) {
	t.Helper()
	for _, cluster := range all() {
		cluster.MustKubectl(t, "apply", "-k", example(cluster.Name))
	}
	for _, cluster := range all() {
		cluster.MustKubectl(t, "rollout", "status", "statefulset/etcd", "-n", namespace, "--timeout=100s")
	}
}

// journal is what was written to etcd.
type journal struct{ last int }

func key(number int) string { return fmt.Sprintf("journal/%04d", number) }

// write writes the next value through the member of a cluster, and returns when it is confirmed.
func (j *journal) write(t *testing.T, through *localcluster.Cluster, flags ...string) {
	t.Helper()
	j.last++
	// Another attempt is made if the machine is so busy that members miss each other for a moment.
	expect.Within(t, 30*time.Second, "write through "+through.Name, func(ctx context.Context) error {
		_, err := etcdctl(ctx, through, append([]string{"put", key(j.last), fmt.Sprint(j.last), "--command-timeout=3s"}, flags...)...)
		if err != nil {
			t.Logf("retrying: %v", err)
		}
		return err
	})
}

// read waits until a member returns the last value.
func (j *journal) read(t *testing.T, in *localcluster.Cluster, flags ...string) {
	t.Helper()
	expect.Eventually(t, "last value", func(ctx context.Context) error { return reads(ctx, in, key(j.last), fmt.Sprint(j.last), flags...) })
}

// complete fails the test unless a member itself has everything that was written.
func (j *journal) complete(t *testing.T, in *localcluster.Cluster) {
	t.Helper()
	found := strings.Fields(must(t, in, "get", itself, "--prefix", "--keys-only", "journal/"))
	for number := 1; number <= j.last; number++ {
		if number > len(found) || found[number-1] != key(number) {
			t.Fatalf("the member in %s lacks %s: it has %q", in.Name, key(number), found)
		}
	}
}

// R480 to R482: an etcd whose members know each other by their names in the ClusterSet serves on when
// the cluster with its leader is lost, and the member of that cluster is found by its name again.
func TestQuorumServesWhileAClusterIsLost(t *testing.T) {
	started := time.Now()
	deploy(t)
	t.Logf("all members were ready after %s", since(started))
	var written journal
	for _, cluster := range all() {
		written.write(t, cluster)
	}
	for _, cluster := range all() {
		written.read(t, cluster)
	}
	address := moved(t, "none")
	restarted := time.Now()
	north.MustKubectl(t, "delete", "pod", "etcd-0", "-n", namespace)
	address = moved(t, address)
	t.Logf("the name of a member that was deleted had its new address after %s", since(restarted))
	north.MustKubectl(t, "rollout", "status", "statefulset/etcd", "-n", namespace, "--timeout=100s")
	lead(t, north)
	members := must(t, east, "member", "list")

	lost(t, &written)
	returns(t, &written, address)
	if after := must(t, east, "member", "list"); after != members {
		t.Errorf("members are\n%s, were\n%s", after, members)
	}
}

// moved waits until the member in the north is found in the east at another address than before, which it returns.
func moved(t *testing.T, before string) (now string) {
	t.Helper()
	expect.Eventually(t, "address of the member in the north", func(ctx context.Context) (err error) {
		if now, err = resolve(ctx, east, nameOf(north)); err == nil && (now == "" || now == before) {
			err = fmt.Errorf("%s has address %q, and had %s before", nameOf(north), now, before)
		}
		return err
	})
	if own := north.MustKubectl(t, "get", "pod", "etcd-0", "-n", namespace, "-o", "jsonpath={.status.podIP}"); own != now {
		t.Errorf("%s has address %s in the east, but the Pod has %s", nameOf(north), now, own)
	}
	return now
}

// lost lets the north be lost, and checks that the others serve on: before its name is withdrawn, and after.
func lost(t *testing.T, written *journal) {
	t.Helper()
	crashed := time.Now()
	expect.NoError(t, north.Crash())
	written.write(t, east)
	t.Logf("the quorum served writes %s after the cluster of its leader was lost", since(crashed))
	written.write(t, west)
	written.read(t, east)
	if address := expect.Must(resolve(t.Context(), east, nameOf(north)))(t); address == "" && time.Since(crashed) < ttl {
		t.Errorf("the name of the lost member was withdrawn within %s", since(crashed))
	}

	expect.Eventually(t, "withdrawal of the lost member", func(ctx context.Context) error {
		written.write(t, east)
		addresses, err := resolve(ctx, east, nameOf(north))
		if err == nil && addresses != "" {
			err = fmt.Errorf("the name of the lost member still has %s", addresses)
		}
		return err
	})
	t.Logf("the name of the lost member was withdrawn after %s, and %d values were written", since(crashed), written.last)
	expect.Lacks(t, east.MustKubectl(t, "get", "member", "north", "-o", "yaml"), "Unreadable") // it sent nothing wrong
	for _, cluster := range []*localcluster.Cluster{east, west} {
		for range 5 {
			written.write(t, cluster, "--endpoints=http://etcd-client."+namespace+".svc.clusterset.local:2379")
		}
		for _, peer := range []*localcluster.Cluster{east, west} {
			if address, err := resolve(t.Context(), cluster, nameOf(peer)); err != nil || address == "" {
				t.Errorf("%s does not resolve %s (%v)", cluster.Name, nameOf(peer), err)
			}
		}
	}
}

// returns brings the north back, and checks that its member catches up and counts in the quorum.
func returns(t *testing.T, written *journal, address string) {
	t.Helper()
	recovered := time.Now()
	expect.NoError(t, north.Recover(t.Context()))
	t.Logf("the control plane of the lost cluster was back after %s", since(recovered))
	written.read(t, north, itself)
	t.Logf("the lost member had caught up %s after its cluster was started", since(recovered))
	moved(t, address)
	t.Logf("its name had its new address %s after its cluster was started", since(recovered))
	written.complete(t, north)
	north.MustKubectl(t, "rollout", "status", "statefulset/etcd", "-n", namespace, "--timeout=100s")
	lead(t, north)
	written.write(t, west)
	written.write(t, north)
}

// loseVolume deletes the data of the member in the north, and waits until it refuses to found another etcd.
func loseVolume(t *testing.T) {
	t.Helper()
	// Other than in the image of etcd, there are programs in this Pod.
	north.MustKubectl(t, "exec", "-n", namespace, "etcd-0", "--", "rm", "-r", "/var/lib/etcd/data")
	north.MustKubectl(t, "delete", "pod", "etcd-0", "-n", namespace)
	expect.Eventually(t, "refusal of the member without its volume", func(ctx context.Context) error {
		logs, err := north.Kubectl(ctx, "logs", "etcd-0", "-n", namespace)
		if err == nil && !strings.Contains(logs, "has already been bootstrapped") {
			err = errors.New(logs)
		}
		return err
	})
}

// existing returns a copy of the example's directory of the north in which its member joins an existing etcd.
func existing(t *testing.T) string {
	t.Helper()
	directory := t.TempDir()
	expect.NoError(t, os.CopyFS(filepath.Join(directory, "base"), os.DirFS(example("base"))))
	expect.NoError(t, os.Mkdir(filepath.Join(directory, "north"), 0o755))
	text := string(expect.Must(os.ReadFile(filepath.Join(example("north"), "kustomization.yaml")))(t))
	expect.Contains(t, text, "state=new")
	expect.NoError(t, os.WriteFile(filepath.Join(directory, "north", "kustomization.yaml"), []byte(strings.ReplaceAll(text, "state=new", "state=existing")), 0o600))
	return filepath.Join(directory, "north")
}
