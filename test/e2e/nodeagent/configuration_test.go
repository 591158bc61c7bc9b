// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"os"
	"strings"
	"testing"
)

func testEnvironment(t *testing.T) {
	n := newNamespace(t, "environment")
	n.kubectl("create", "configmap", "config", "--from-literal=KEY=from-config")
	n.kubectl("create", "secret", "generic", "secret", "--from-literal=PASSWORD=from-secret")
	n.apply(`
apiVersion: v1
kind: Pod
metadata: {name: pod, labels: {app: web}, annotations: {note: text}}
spec:
  restartPolicy: Never
  containers:
  - name: c
    image: none
    command: [sh, -c, 'env; echo "argument $0"']
    args: ["$(NAME) $$(NAME) $(UNKNOWN)"]
    envFrom: [{configMapRef: {name: config}}, {prefix: S_, secretRef: {name: secret}}]
    env:
    - {name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    - {name: UID_, valueFrom: {fieldRef: {fieldPath: metadata.uid}}}
    - {name: APP, valueFrom: {fieldRef: {fieldPath: "metadata.labels['app']"}}}
    - {name: NOTE, valueFrom: {fieldRef: {fieldPath: "metadata.annotations['note']"}}}
    - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
    - {name: ACCOUNT, valueFrom: {fieldRef: {fieldPath: spec.serviceAccountName}}}
    - {name: IPS, valueFrom: {fieldRef: {fieldPath: status.podIPs}}}
    - {name: HOST_IP, valueFrom: {fieldRef: {fieldPath: status.hostIP}}}
    - {name: CONFIG, valueFrom: {configMapKeyRef: {name: config, key: KEY}}}
    - {name: SECRET, valueFrom: {secretKeyRef: {name: secret, key: PASSWORD}}}
    - {name: GREETING, value: "hello $(NAME)"}
`)
	n.await("jsonpath={.status.phase}=Succeeded", "pod/pod")
	ips := strings.ReplaceAll(n.jsonpath("pod/pod", ".status.podIPs[*].ip"), " ", ",")
	n.contains(n.kubectl("logs", "pod"),
		"argument pod $(NAME) $(UNKNOWN)", "KEY=from-config", "S_PASSWORD=from-secret",
		"NAME=pod", "UID_="+n.jsonpath("pod/pod", ".metadata.uid"), "APP=web", "NOTE=text", "NODE="+nodeName, "ACCOUNT=default", "IPS="+ips, "HOST_IP=10.250.0.1",
		"CONFIG=from-config", "SECRET=from-secret", "GREETING=hello pod", "HOSTNAME=pod",
		"KUBERNETES_SERVICE_HOST=10.96.0.1", "KUBERNETES_SERVICE_PORT=443")
}

func testVolumes(t *testing.T) {
	n := newNamespace(t, "volumes")
	n.kubectl("create", "configmap", "config", "--from-literal=key=before", "--from-literal=other=o")
	n.kubectl("create", "secret", "generic", "secret", "--from-literal=password=p")
	host := t.TempDir()
	n.apply(`
apiVersion: v1
kind: Pod
metadata: {name: pod, labels: {color: blue}}
spec:
  terminationGracePeriodSeconds: 1
  volumes:
  - {name: config, configMap: {name: config}}
  - {name: secret, secret: {secretName: secret, defaultMode: 0400}}
  - {name: labels, downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}
  - {name: empty, emptyDir: {}}
  - {name: memory, emptyDir: {medium: Memory}}
  - {name: host, hostPath: {path: "` + host + `"}}
  containers:
  - &c
    name: c
    image: none
    command: [sleep, infinity]
    volumeMounts:
    - {name: config, mountPath: /no/such/directory/config}
    - {name: config, mountPath: /usr/share/no-such-file, subPath: other}
    - {name: secret, mountPath: /secret, readOnly: true}
    - {name: labels, mountPath: /labels}
    - {name: empty, mountPath: /data}
    - {name: empty, mountPath: /data/inner, subPath: sub/directory}
    - {name: memory, mountPath: /memory}
    - {name: host, mountPath: /host}
  - {<<: *c, name: d}
`)
	n.await("condition=Ready", "pod/pod")
	got := n.shell("c", `cd /no/such/directory/config && cat key && echo && cat /usr/share/no-such-file && echo && stat -Lc '%a' /secret/password && cat /secret/password && echo &&
		head -1 /labels/labels && echo data >/data/file && echo inner >/data/inner/file && echo shared >/memory/file && echo host >/host/file && stat -fc %T /memory; (echo x >/secret/x) 2>&1 | grep -o Read-only`)
	n.contains(got, "before", "o", "400", "p", `color="blue"`, "tmpfs", "Read-only")
	n.contains(n.shell("d", "cat /memory/file /data/file /data/sub/directory/file"), "shared\ndata\ninner")
	if data, err := os.ReadFile(host + "/file"); err != nil || string(data) != "host\n" {
		t.Errorf("file on the host is %q, %v", data, err)
	}
	n.kubectl("patch", "configmap", "config", "-p", `{"data":{"key":"after","new":"n"}}`)
	n.kubectl("label", "pod", "pod", "color=red", "--overwrite")
	n.eventually("the content changes", func() bool {
		return n.shell("c", "cd /no/such/directory/config; cat key new; head -1 /labels/labels") == "aftern"+`color="red"`+"\n"
	})
	for _, path := range []string{"/no", "/usr/share/no-such-file", "/secret", "/memory"} {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s was created on the host", path)
		}
	}
}

func testUser(t *testing.T) {
	n := newNamespace(t, "user")
	n.kubectl("create", "configmap", "config", "--from-literal=key=value")
	n.apply(`
apiVersion: v1
kind: Pod
metadata: {name: pod}
spec:
  terminationGracePeriodSeconds: 1
  securityContext: {runAsNonRoot: true, runAsUser: 65532, runAsGroup: 65533, fsGroup: 2000}
  volumes:
  - {name: empty, emptyDir: {medium: Memory}}
  - {name: config, configMap: {name: config, defaultMode: 0400}}
  containers:
  - name: c
    image: none
    command: [sleep, infinity]
    securityContext: {readOnlyRootFilesystem: true, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
    volumeMounts: [{name: empty, mountPath: /data}, {name: config, mountPath: /config}]
  - {name: other, image: none, command: [sleep, infinity], securityContext: {runAsUser: 1000}}
`)
	n.await("condition=Ready", "pod/pod")
	got := n.shell("c", `echo "$(id -u) $(id -g) $(id -G)"; grep CapEff /proc/self/status; grep CapEff /proc/$(pgrep -x sleep)/status; touch /data/file; stat -c %g /data/file; cat /config/key; echo;
		test -s /var/run/secrets/kubernetes.io/serviceaccount/token && echo token; for f in /x /tmp/x /etc/x; do touch $f 2>/dev/null && echo wrote $f; done; kubectl version --client >/dev/null && echo program`)
	n.contains(got, "65532 65533 65533 2000", "CapEff:\t0000000000000000\nCapEff:\t0000000000000000", "2000", "value", "token", "program")
	if strings.Contains(got, "wrote") {
		t.Error(got)
	}
	n.contains(n.shell("other", "id -u"), "1000")
}

func testClaim(t *testing.T) {
	n := newNamespace(t, "claim")
	manifest := func(pod, script string) string {
		return `
apiVersion: v1
kind: Pod
metadata: {name: ` + pod + `}
spec:
  restartPolicy: Never
  securityContext: {runAsUser: 1000, fsGroup: 1000}
  volumes: [{name: v, persistentVolumeClaim: {claimName: claim}}]
  containers: [{name: c, image: none, command: [sh, -c, "` + script + `"], volumeMounts: [{name: v, mountPath: /v}]}]
`
	}
	n.apply(manifest("one", "echo kept >/v/file"))
	n.eventually("the Pod waits for its volume", func() bool {
		return strings.Contains(n.kubectl("get", "events", "--field-selector=reason=FailedMount"), `"claim" not found`)
	})
	n.apply(`
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: claim}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`)
	n.await("jsonpath={.status.phase}=Succeeded", "pod/one")
	n.kubectl("delete", "pod", "one")
	n.apply(manifest("two", "cat /v/file"))
	n.await("jsonpath={.status.phase}=Succeeded", "pod/two")
	n.contains(n.kubectl("logs", "two"), "kept")
}

func testToken(t *testing.T) {
	n := newNamespace(t, "token")
	n.kubectl("create", "role", "reader", "--verb=get", "--resource=pods")
	n.kubectl("create", "rolebinding", "reader", "--role=reader", "--serviceaccount=token:default")
	n.apply(`
apiVersion: v1
kind: Pod
metadata: {name: pod}
spec:
  restartPolicy: Never
  containers:
  - name: c
    image: kubectl
    args: [get, pod, pod, -o, "jsonpath={.metadata.name} of {.metadata.namespace}"]
    # Without kube-proxy, the address of the Service leads nowhere.
    env: [{name: KUBERNETES_SERVICE_HOST, value: 10.250.0.1}, {name: KUBERNETES_SERVICE_PORT, value: "6443"}]
  - name: files
    image: none
    workingDir: /var/run/secrets/kubernetes.io/serviceaccount
    command: [sh, -c, "cat namespace; echo; head -1 ca.crt; ls -l token"]
`)
	n.await("jsonpath={.status.phase}=Succeeded", "pod/pod")
	n.contains(n.kubectl("logs", "pod", "-c", "c"), "pod of token")
	n.contains(n.kubectl("logs", "pod", "-c", "files"), "token", "-----BEGIN CERTIFICATE-----")
}
