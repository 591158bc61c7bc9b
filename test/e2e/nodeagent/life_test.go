// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

func testReadiness(t *testing.T) {
	n := newNamespace(t, "readiness")
	n.apply(`
apiVersion: v1
kind: Pod
metadata: {name: pod}
spec:
  readinessGates: [{conditionType: example.com/gate}]
  containers:
  - name: c
    image: webserver
    readinessProbe: {httpGet: {port: 8080, path: /ready}, periodSeconds: 1, failureThreshold: 1}
    livenessProbe: {exec: {command: [test, -d, /tmp]}, periodSeconds: 1}
`)
	n.await("condition=ContainersReady", "pod/pod")
	n.contains(n.jsonpath("pod/pod", `.status.conditions[?(@.type=="Ready")].reason`), "ReadinessGatesNotReady")
	n.kubectl("patch", "pod", "pod", "--subresource=status", "-p", `{"status":{"conditions":[{"type":"example.com/gate","status":"True"}]}}`)
	n.await("condition=Ready", "pod/pod")
	n.exec("pod", webServer, "http://localhost:8080/toggle?name=ready")
	n.await("condition=Ready=false", "pod/pod")
	n.contains(n.jsonpath("pod/pod", ".status.containerStatuses[0].ready} {.status.containerStatuses[0].restartCount} {.status.phase"), "false 0 Running")
	n.exec("pod", webServer, "http://localhost:8080/toggle?name=ready")
	n.await("condition=Ready", "pod/pod")
	n.eventually("the failure is an event", func() bool {
		return strings.Contains(n.kubectl("get", "events", "--field-selector=reason=Unhealthy"), "Readiness probe failed")
	})
}

func testLiveness(t *testing.T) {
	n := newNamespace(t, "liveness")
	n.apply(`
apiVersion: v1
kind: Pod
metadata: {name: pod}
spec:
  containers:
  - name: c
    image: webserver
    startupProbe: {httpGet: {port: 8080, path: /live}, periodSeconds: 1}
    livenessProbe: {httpGet: {port: 8080, path: /live}, periodSeconds: 1, failureThreshold: 1}
`)
	n.await("condition=Ready", "pod/pod")
	first := n.jsonpath("pod/pod", ".status.containerStatuses[0].containerID")
	n.exec("pod", webServer, "http://localhost:8080/toggle?name=live")
	n.await("jsonpath={.status.containerStatuses[0].restartCount}=1", "pod/pod")
	n.await("condition=Ready", "pod/pod")
	n.contains(n.jsonpath("pod/pod", ".status.containerStatuses[0].lastState.terminated.exitCode} {.status.containerStatuses[0].lastState.terminated.containerID"), "0 "+first)
	n.contains(n.kubectl("logs", "pod", "--previous"), "asked to end")
}

func testCrashLoop(t *testing.T) {
	n := newNamespace(t, "crashloop")
	n.apply(`
apiVersion: v1
kind: Pod
metadata: {name: pod}
spec:
  containers:
  - {name: c, image: none, command: [sh, -c, "exit 4"]}
  - {name: d, image: none, command: [no-such-program]}
`)
	n.await("jsonpath={.status.containerStatuses[0].state.waiting.reason}=CrashLoopBackOff", "pod/pod")
	n.contains(n.jsonpath("pod/pod", ".status.containerStatuses[0].lastState.terminated.exitCode} {.status.phase"), "4 Running")
	n.await("jsonpath={.status.containerStatuses[1].lastState.terminated.reason}=StartError", "pod/pod")
	n.eventually("the container is restarted again and again", func() bool {
		restarts, err := strconv.Atoi(n.jsonpath("pod/pod", ".status.containerStatuses[0].restartCount"))
		return err == nil && restarts >= 3
	})
	n.eventually("the back-off is an event", func() bool { return n.kubectl("get", "events", "--field-selector=reason=BackOff", "-o", "name") != "" })
}

func testMissing(t *testing.T) {
	n := newNamespace(t, "missing")
	n.apply(`
apiVersion: v1
kind: Pod
metadata: {name: pod}
spec:
  containers:
  - {name: c, image: none, command: [sleep, infinity], envFrom: [{configMapRef: {name: later}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: image}
spec:
  containers: [{name: c, image: "example.com/no-such-image:v1"}]
`)
	n.await("jsonpath={.status.containerStatuses[0].state.waiting.reason}=CreateContainerConfigError", "pod/pod")
	n.await("jsonpath={.status.containerStatuses[0].state.waiting.reason}=ErrImagePull", "pod/image")
	if message := n.jsonpath("pod/image", ".status.containerStatuses[0].state.waiting.message"); !strings.Contains(message, `"no-such-image"`) {
		t.Errorf("message is %q", message)
	}
	n.kubectl("create", "configmap", "later")
	n.await("condition=Ready", "pod/pod")
	n.contains(n.jsonpath("pod/pod", ".status.containerStatuses[0].restartCount"), "0")
}

func testTermination(t *testing.T) {
	n := newNamespace(t, "termination")
	host := t.TempDir()
	n.apply(`
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Pod
metadata: {name: pod, labels: {app: web}}
spec:
  terminationGracePeriodSeconds: 20
  volumes: [{name: host, hostPath: {path: "` + host + `"}}]
  containers:
  - name: c
    image: webserver
    args: [--linger=2s]
    readinessProbe: {httpGet: {port: 8080, path: /ready}, periodSeconds: 1, failureThreshold: 1}
    lifecycle: {preStop: {exec: {command: [sh, -c, "date +%s.%N >/host/hook"]}}}
    volumeMounts: [{name: host, mountPath: /host}]
`)
	n.await("condition=Ready", "pod/pod")
	conditions := func() string {
		return n.kubectl("get", "endpointslices", "-o", "jsonpath={range .items[*].endpoints[*]}{.conditions.ready},{.conditions.serving},{.conditions.terminating}{end}")
	}
	n.eventually("the endpoint is ready", func() bool { return conditions() == "true,true,false" })
	begin := time.Now()
	n.kubectl("delete", "pod", "pod", "--wait=false")
	n.eventually("the endpoint serves while it ends", func() bool { return conditions() == "false,true,true" })
	n.await("delete", "pod/pod")
	if took := time.Since(begin); took < 2*time.Second || took > 10*time.Second {
		t.Errorf("termination took %s", took)
	}
	if names := readDir(t, host); len(names) != 1 || names[0] != "hook" {
		t.Errorf("the hook left %v", names)
	}
}

func testStubborn(t *testing.T) {
	n := newNamespace(t, "stubborn")
	n.apply(`
apiVersion: v1
kind: Pod
metadata: {name: pod, finalizers: [example.com/keep]}
spec:
  containers: [{name: c, image: none, command: [sh, -c, "trap '' TERM; echo up; while :; do sleep 0.1; done"]}]
`)
	n.await("condition=Ready", "pod/pod")
	n.eventually("the program runs", func() bool { return n.kubectl("logs", "pod") == "up\n" })
	n.kubectl("delete", "pod", "pod", "--wait=false") // grace period of 30 s
	n.kubectl("delete", "pod", "pod", "--wait=false", "--grace-period=1")
	n.await("jsonpath={.status.containerStatuses[0].state.terminated.exitCode}=137", "pod/pod")
	n.await("jsonpath={.status.phase}=Failed", "pod/pod")
	n.kubectl("patch", "pod", "pod", "-p", `{"metadata":{"finalizers":null}}`)
	n.await("delete", "pod/pod")
}

func testForce(t *testing.T) {
	n := newNamespace(t, "force")
	manifest := strings.Replace(sleeper, "infinity", "27182818", 1)
	n.apply(manifest)
	n.await("condition=Ready", "pod/pod")
	n.kubectl("delete", "pod", "pod", "--force", "--grace-period=0")
	n.apply(sleeper)
	n.await("condition=Ready", "pod/pod")
	n.eventually("the processes of the first one are gone", func() bool { return !processWith("27182818") })
	n.contains(n.exec("pod", "sh", "-c", "ps -e -o args | grep sleep | grep -v grep"), "sleep infinity")
}

func testDeleteNamespace(t *testing.T) {
	n := newNamespace(t, "deleted")
	n.apply(sleeper)
	n.apply(deployment)
	n.await("condition=Ready", "pod/pod")
	n.kubectl("rollout", "status", "deployment/web", "--timeout=30s")
	n.kubectl("delete", "namespace", "deleted", "--timeout=30s")
}
