// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"net"
	"strings"
	"testing"
)

func testNode(t *testing.T) {
	n := &namespace{T: t, name: "default"}
	n.await("condition=Ready", "node/"+nodeName)
	got := n.jsonpath("node/"+nodeName, `.metadata.labels.topology\.kubernetes\.io/zone} {.status.addresses[*].address} {.status.daemonEndpoints.kubeletEndpoint.Port} {.spec.podCIDRs`)
	want := `zone-1 10.250.0.1 fd00:250::1 node 10250 ["10.81.0.0/16","fd00:81::/64"]`
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	n.eventually("the node has no taints", func() bool { return n.jsonpath("node/"+nodeName, ".spec.taints") == "" })
	n.await("jsonpath={.spec.holderIdentity}="+nodeName, "lease/"+nodeName, "--namespace=kube-node-lease")
	n.contains(n.kubectl("get", "--raw", "/api/v1/nodes/"+nodeName+"/proxy/healthz"), "ok")
}

const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 2
      containers:
      - name: web
        image: example.com/webserver:v1
        ports: [{name: http, containerPort: 8080}]
        readinessProbe: {httpGet: {port: http, path: /ready}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  ipFamilyPolicy: RequireDualStack
  selector: {app: web}
  ports: [{port: 80, targetPort: http}]
`

func testDeployment(t *testing.T) {
	n := newNamespace(t, "deployment")
	n.apply(deployment)
	n.kubectl("rollout", "status", "deployment/web", "--timeout=30s")
	pods := strings.Fields(n.kubectl("get", "pods", "-o", "jsonpath={.items[*].metadata.name}"))
	if len(pods) != 2 {
		t.Fatalf("Pods: %v", pods)
	}
	for i, pod := range pods {
		ips := strings.Fields(n.jsonpath("pod/"+pod, ".status.podIPs[*].ip"))
		if len(ips) != 2 || net.ParseIP(ips[0]).To4() == nil || net.ParseIP(ips[1]).To4() != nil {
			t.Fatalf("Pod %s has addresses %v", pod, ips)
		}
		other := pods[1-i]
		for _, ip := range ips {
			got := n.exec(other, webServer, "http://"+net.JoinHostPort(ip, "8080"))
			if !strings.HasPrefix(got, pod+" ") {
				t.Errorf("response to %s from %s at %s: %q", other, pod, ip, got)
			}
			// The source address is that of the client Pod.
			source := n.jsonpath("pod/"+other, ".status.podIPs[*].ip")
			if host, _, _ := net.SplitHostPort(strings.TrimSpace(strings.TrimPrefix(got, pod+" "))); !strings.Contains(source, host) {
				t.Errorf("source address of %s is %s, want one of %s", other, host, source)
			}
		}
	}
	n.eventually("both families have two ready endpoints", func() bool {
		got := n.kubectl("get", "endpointslices", "-o", `jsonpath={range .items[*]}{.addressType}:{range .endpoints[*]}{.conditions.ready},{end}{"\n"}{end}`)
		return strings.Contains(got, "IPv4:true,true,\n") && strings.Contains(got, "IPv6:true,true,\n")
	})
	n.contains(n.exec(pods[0], "cat", "/etc/resolv.conf"),
		"search deployment.svc.cluster.local svc.cluster.local cluster.local", "nameserver 10.96.0.10", "nameserver fd00:96::a", "options ndots:5")
	n.contains(n.exec(pods[0], "sh", "-c", "hostname; cat /etc/hostname"), pods[0]+"\n"+pods[0])
}

func testStatefulSet(t *testing.T) {
	n := newNamespace(t, "statefulset")
	n.apply(`
apiVersion: v1
kind: Service
metadata: {name: db}
spec: {clusterIP: None, selector: {app: db}}
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
      containers: [{name: db, image: none, command: [sleep, infinity]}]
`)
	n.kubectl("rollout", "status", "statefulset/db", "--timeout=30s")
	ips := strings.Fields(n.jsonpath("pod/db-1", ".status.podIPs[*].ip"))
	for _, ip := range ips {
		n.contains(n.exec("db-1", "cat", "/etc/hosts"), ip+"\tdb-1.db.statefulset.svc.cluster.local\tdb-1")
	}
	n.contains(n.exec("db-1", "sh", "-c", "hostname; getent hosts db-1 localhost"), "db-1")
}

func testJob(t *testing.T) {
	n := newNamespace(t, "job")
	n.apply(`
apiVersion: batch/v1
kind: Job
metadata: {name: good}
spec:
  template:
    spec:
      restartPolicy: OnFailure
      volumes: [{name: v, emptyDir: {}}]
      containers:
      - name: c
        image: none
        command: [sh, -c, "test -f /v/second || { touch /v/second; exit 1; }"]
        volumeMounts: [{name: v, mountPath: /v}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: bad}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers: [{name: c, image: none, command: [sh, -c, "echo too bad >/dev/termination-log; exit 3"]}]
`)
	n.await("condition=Complete", "job/good")
	n.await("condition=Failed", "job/bad")
	status := func(job string) string {
		return n.kubectl("get", "pods", "-l", "job-name="+job, "-o", "jsonpath={range .items[*].status}{.phase} {.containerStatuses[0].restartCount} "+
			"{.containerStatuses[0].state.terminated.exitCode} {.containerStatuses[0].state.terminated.message}{end}")
	}
	n.contains(status("good"), "Succeeded 1 0 ")
	n.contains(status("bad"), "Failed 0 3 too bad\n")
}

func testInitContainers(t *testing.T) {
	n := newNamespace(t, "init")
	n.apply(`
apiVersion: v1
kind: Pod
metadata: {name: pod}
spec:
  volumes: [{name: v, emptyDir: {}}]
  initContainers:
  - {name: one, image: none, command: [sh, -c, "echo one >>/v/log"], volumeMounts: [{name: v, mountPath: /v}]}
  - name: sidecar
    image: webserver
    restartPolicy: Always
    startupProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}
  - {name: two, image: none, command: [sh, -c, "webserver http://localhost:8080 | cut -d' ' -f1 >>/v/log"], volumeMounts: [{name: v, mountPath: /v}]}
  containers:
  - {name: main, image: none, command: [sh, -c, "cat /v/log; sleep infinity"], volumeMounts: [{name: v, mountPath: /v}]}
`)
	n.await("condition=Ready", "pod/pod")
	n.eventually("the main container has printed", func() bool { return strings.HasSuffix(n.kubectl("logs", "pod"), "pod\n") })
	n.contains(n.kubectl("logs", "pod"), "one\npod")
	n.contains(n.jsonpath("pod/pod", ".status.initContainerStatuses[*].ready} {.status.initContainerStatuses[1].started"), "true true true true")
}

func testHostNetwork(t *testing.T) {
	n := newNamespace(t, "host")
	n.apply(`
apiVersion: v1
kind: Pod
metadata: {name: pod}
spec:
  hostNetwork: true
  containers: [{name: c, image: none, command: [sleep, infinity]}]
`)
	n.await("condition=Ready", "pod/pod")
	n.contains(n.jsonpath("pod/pod", ".status.podIPs[*].ip} {.status.hostIPs[*].ip"), "10.250.0.1 fd00:250::1 10.250.0.1 fd00:250::1")
	n.contains(n.exec("pod", "sh", "-c", "hostname; ls /sys/class/net | wc -l; ip -o link show cbr0 >/dev/null && echo bridge"), nodeName, "bridge")
}
