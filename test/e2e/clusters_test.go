// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster"
)

// server is a Deployment that answers every connection with the name of the Pod.
const server = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: alpine/socat
        command: [/bin/sh, -c, 'exec socat TCP6-LISTEN:8080,fork,reuseaddr,ipv6only=0 SYSTEM:"echo $POD"']
        env:
        - {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  ipFamilyPolicy: RequireDualStack
  selector: {app: web}
  ports: [{port: 80, targetPort: 8080}]
`

const client = `
apiVersion: v1
kind: Pod
metadata: {name: client}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: client, image: busybox, command: [/bin/sh, -c, 'sleep infinity']}
`

func TestClustersStartQuicklyAndAreSmall(t *testing.T) {
	t.Logf("both clusters were ready after %s", tookUp.Round(time.Millisecond))
	if tookUp > time.Minute {
		t.Errorf("starting two clusters took %s", tookUp)
	}
	for _, cluster := range []*localcluster.Cluster{east, west} {
		size, err := cluster.Memory()
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s uses %d MiB", cluster.Name, size>>20)
		if size > 3<<29 { // 1.5 GiB
			t.Errorf("%s uses %d MiB", cluster.Name, size>>20)
		}
	}
}

// In every cluster, Pods resolve and reach a Service over both IP families.
func TestPodsReachServicesByName(t *testing.T) {
	ns := namespace(t, "reach")
	for _, cluster := range []*localcluster.Cluster{east, west} {
		apply(t, cluster, ns, server+"---"+client)
		kubectl(t, cluster, "rollout", "status", "deployment/web", "-n", ns, "--timeout=100s")
		kubectl(t, cluster, "wait", "pod/client", "-n", ns, "--for=condition=Ready", "--timeout=100s")
		for _, family := range []string{"4", "6"} {
			seen := map[string]bool{}
			eventually(t, cluster, ns, "client", func(output string) bool {
				if strings.HasPrefix(output, "web-") {
					seen[output] = true
				}
				return len(seen) == 2
			}, "sh", "-c", "socat -"+family+" -t5 -T5 - TCP:web:80,connect-timeout=2 </dev/null")
		}
	}
}

func TestStatefulSetPodsHaveDNSNames(t *testing.T) {
	ns := namespace(t, "stateful")
	apply(t, east, ns, `
apiVersion: v1
kind: Service
metadata: {name: db}
spec: {clusterIP: None, ipFamilyPolicy: RequireDualStack, selector: {app: db}, ports: [{name: sql, port: 5432}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: 2
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: db, image: busybox, command: [/bin/sh, -c, 'sleep infinity']}]
`)
	kubectl(t, east, "rollout", "status", "statefulset/db", "-n", ns, "--timeout=100s")
	for _, pod := range []string{"db-0", "db-1"} {
		ips := strings.Fields(kubectl(t, east, "get", "pod", pod, "-n", ns, "-o", "jsonpath={.status.podIPs[*].ip}"))
		if len(ips) != 2 {
			t.Fatalf("%s has addresses %v, want one per family", pod, ips)
		}
		eventually(t, east, ns, "db-0", func(output string) bool {
			return strings.Contains(output, ips[0]) && strings.Contains(output, ips[1])
		}, "nslookup", pod+".db."+ns+".svc.cluster.local")
		if name, err := exec(t.Context(), east, ns, pod, "hostname"); err != nil || name != pod {
			t.Errorf("host name of %s is %q (%v)", pod, name, err)
		}
	}
}

// Pods of one cluster can reach Pods of another cluster, but not its Services.
func TestPodNetworksAreConnectedAndServiceNetworksAreNot(t *testing.T) {
	ns := namespace(t, "joined")
	apply(t, east, ns, server)
	apply(t, west, ns, client)
	kubectl(t, east, "rollout", "status", "deployment/web", "-n", ns, "--timeout=100s")
	kubectl(t, west, "wait", "pod/client", "-n", ns, "--for=condition=Ready", "--timeout=100s")
	for _, ip := range strings.Fields(kubectl(t, east, "get", "pods", "-l", "app=web", "-n", ns, "-o", "jsonpath={.items[*].status.podIPs[*].ip}")) {
		eventually(t, west, ns, "client", func(output string) bool { return strings.HasPrefix(output, "web-") }, dial(ip, 8080)...)
	}
	for _, ip := range strings.Fields(kubectl(t, east, "get", "service", "web", "-n", ns, "-o", "jsonpath={.spec.clusterIPs[*]}")) {
		if output, err := exec(t.Context(), west, ns, "client", dial(ip, 80)...); err == nil && output != "" {
			t.Errorf("Service of the other cluster is reachable at %s: %s", ip, output)
		}
	}
}

// dial returns a command that prints the response of a server, with a timeout.
func dial(ip string, port int) []string {
	if netip.MustParseAddr(ip).Is6() {
		ip = "[" + ip + "]"
	}
	return []string{"sh", "-c", fmt.Sprintf("socat -t5 -T5 - TCP:%s:%d,connect-timeout=2 </dev/null", ip, port)}
}

func TestNamespaceWithWorkloadsIsDeleted(t *testing.T) {
	ns := namespace(t, "doomed")
	apply(t, east, ns, server+"---"+client)
	apply(t, east, ns, "apiVersion: multicluster.x-k8s.io/v1beta1\nkind: ServiceExport\nmetadata: {name: web}\n")
	kubectl(t, east, "rollout", "status", "deployment/web", "-n", ns, "--timeout=100s")
	kubectl(t, east, "delete", "namespace", ns, "--timeout=100s")
}

// upstream is modeled on the workload of upstream's conformance suite: one image
// has an entry point and the other has none, containers have arguments only, and
// both protocols use the same port.
const upstream = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: hello}
spec:
  selector: {matchLabels: {app: hello}}
  template:
    metadata: {labels: {app: hello}}
    spec:
      containers:
      - name: tcp
        image: alpine/socat
        args: [-v, -v, 'TCP-LISTEN:42,crlf,reuseaddr,fork', 'SYSTEM:echo pod ip $(MY_POD_IP)']
        env: [{name: MY_POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]
      - name: udp
        image: alpine/socat
        args: [-v, -v, 'UDP-LISTEN:42,crlf,reuseaddr,fork', 'SYSTEM:echo pod ip $(MY_POD_IP)']
        env: [{name: MY_POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]
---
apiVersion: v1
kind: Service
metadata: {name: hello}
spec:
  selector: {app: hello}
  sessionAffinity: ClientIP
  ports: [{name: tcp, port: 42, protocol: TCP}, {name: udp, port: 42, protocol: UDP}]
---
apiVersion: v1
kind: Pod
metadata: {name: request}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: request, image: busybox, args: [/bin/sh, -ec, 'while :; do echo .; sleep 5; done']}
`

func TestWorkloadOfUpstreamConformanceRuns(t *testing.T) {
	ns := namespace(t, "upstream")
	apply(t, east, ns, upstream)
	kubectl(t, east, "rollout", "status", "deployment/hello", "-n", ns, "--timeout=100s")
	kubectl(t, east, "wait", "pod/request", "-n", ns, "--for=condition=Ready", "--timeout=100s")
	ip := kubectl(t, east, "get", "pods", "-l", "app=hello", "-n", ns, "-o", "jsonpath={.items[0].status.podIP}")
	service := "hello." + ns + ".svc.cluster.local"
	answers := func(output string) bool { return strings.Contains(output, "pod ip "+ip) }
	eventually(t, east, ns, "request", answers, "sh", "-c", "echo hi | nc -w 2 "+service+" 42")
	eventually(t, east, ns, "request", answers, "sh", "-c", "echo hi | nc -u -w 2 "+service+" 42")
	eventually(t, east, ns, "request", func(output string) bool { return strings.Contains(output, "Address") }, "nslookup", service)
	if _, err := exec(t.Context(), east, ns, "request", "sh", "-c", "exit 7"); err == nil || !strings.Contains(err.Error(), "7") {
		t.Errorf("exit code of a command is lost: %v", err)
	}
	expect.Contains(t, kubectl(t, east, "get", "pods", "-n", ns, "-o", "wide"), "Running", "node-1")
}

// R195: artifacts/default needs nothing but the cluster. It installs two replicas, whose
// API is available, in a cluster without a storage class.
func TestSystemIsInstalledFromItsArtifacts(t *testing.T) {
	for _, cluster := range []*localcluster.Cluster{east, west} {
		if found := kubectl(t, cluster, "get", "storageclasses,persistentvolumes,persistentvolumeclaims", "-A", "-o", "name"); found != "" {
			t.Errorf("%s has %s", cluster.Name, found)
		}
		kubectl(t, cluster, "rollout", "status", "deployment/mcs-apiserver", "-n", "mcs-system", "--timeout=100s")
		if replicas := kubectl(t, cluster, "get", "deployment", "mcs-apiserver", "-n", "mcs-system", "-o", "jsonpath={.status.availableReplicas}"); replicas != "2" {
			t.Errorf("%s has %s replicas", cluster.Name, replicas)
		}
		kubectl(t, cluster, "wait", "--for=condition=Available", "apiservices", "-l", "app.kubernetes.io/managed-by=mcs-controller", "--timeout=60s")
		expect.Contains(t, kubectl(t, cluster, "get", "configmaps", "-n", "mcs-storage", "-l", "storage.mcs-apiserver.io/resource", "-o", "name"), "configmap/clusterclaims.multicluster.k8s.io-")
	}
}

// R341, R348: what runs in the clusters are the images that `make images` builds: programs
// that see the file system of their image only, and are not root.
func TestSystemRunsFromItsImages(t *testing.T) {
	for _, pod := range strings.Fields(kubectl(t, east, "get", "pods", "-n", "mcs-system", "-l", "app.kubernetes.io/name=mcs-apiserver", "-o", "jsonpath={.items[*].metadata.name}")) {
		for _, program := range []string{"mcs-apiserver", "mcs-controller"} {
			process := fmt.Sprintf("/proc/%d", expect.Must(east.Program(t.Context(), "mcs-system", pod, program))(t))
			status := string(expect.Must(os.ReadFile(process + "/status"))(t))
			expect.Contains(t, status, "Uid:\t65532\t65532\t65532\t65532")
			expect.Contains(t, status, "CapEff:\t0000000000000000")
			if file := expect.Must(os.Readlink(process + "/exe"))(t); file != "/usr/local/bin/"+program {
				t.Errorf("%s runs %s", program, file)
			}
			document := expect.Must(os.ReadFile(filepath.Join(process, "root/usr/local/share/sbom", program+".spdx.json")))(t)
			shipped := expect.Must(filepath.Glob(filepath.Join(set.Root, "bin", "release", program+"-*.spdx.json")))(t)
			if len(shipped) != 1 || string(expect.Must(os.ReadFile(shipped[0]))(t)) != string(document) {
				t.Errorf("%s in Pod %s is not of the image that was built: %q", program, pod, shipped)
			}
			if _, err := os.Stat(process + "/root/bin/sh"); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s in Pod %s sees the file system of the host (%v)", program, pod, err)
			}
		}
	}
}

// Stored objects survive the deletion of all Pods.
func TestExportsSurviveTheDeletionOfAllPods(t *testing.T) {
	ns := namespace(t, "survive")
	apply(t, east, ns, "apiVersion: multicluster.x-k8s.io/v1beta1\nkind: ServiceExport\nmetadata: {name: kept}\n")
	before := kubectl(t, east, "get", "svcex", "kept", "-n", ns, "-o", "jsonpath={.metadata.uid}")
	kubectl(t, east, "delete", "pods", "--all", "-n", "mcs-system", "--timeout=100s")
	kubectl(t, east, "rollout", "status", "deployment/mcs-apiserver", "-n", "mcs-system", "--timeout=100s")
	expect.Eventually(t, "export", func(ctx context.Context) error {
		after, err := east.Kubectl(ctx, "get", "svcex", "kept", "-n", ns, "-o", "jsonpath={.metadata.uid}")
		if err != nil || after != before {
			return fmt.Errorf("%w: %s, was %s", err, after, before)
		}
		return nil
	})
}
