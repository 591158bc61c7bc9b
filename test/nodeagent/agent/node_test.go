// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/kubeletapi"
)

func testConfig(t *testing.T) *Config {
	t.Helper()
	return &Config{
		NodeName: "node", Zone: "zone", NodeIPs: []string{"10.0.0.1", "fd00::1"}, PodCIDRs: []string{"10.81.0.0/16", "fd00:81::/64"},
		RootDir: t.TempDir(), API: kubeletapi.Config{Port: 10250},
	}
}

func TestNodeBecomesRightAndStaysSo(t *testing.T) {
	config := testConfig(t)
	now := metav1.Now()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", Labels: map[string]string{"other": "label"}}}
	node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeNotReady}, {Key: "other"}, {Key: corev1.TaintNodeUnreachable}}
	if meta, status := config.nodeIsRight(node, now); meta || status {
		t.Error("a new Node needs no update")
	}
	node = config.desiredNode(node)
	node.Status = config.desiredStatus(node.Status, now)
	if meta, status := config.nodeIsRight(node, now); !meta || !status {
		t.Errorf("metadata right: %v, status right: %v", meta, status)
	}
	if diff := cmp.Diff([]corev1.Taint{{Key: "other"}}, node.Spec.Taints); diff != "" {
		t.Error(diff)
	}
	for key, want := range map[string]string{"other": "label", corev1.LabelTopologyZone: "zone", corev1.LabelHostname: "node", corev1.LabelOSStable: "linux"} {
		if got := node.Labels[key]; got != want {
			t.Errorf("label %s is %q", key, got)
		}
	}
	if _, status := config.nodeIsRight(node, metav1.NewTime(now.Add(2*heartbeat))); status {
		t.Error("an old heartbeat needs no update")
	}
	if _, status := config.nodeIsRight(node, metav1.NewTime(now.Add(heartbeat/2))); !status {
		t.Error("a recent heartbeat needs an update")
	}
}

func TestNodeComesBackFromUnknown(t *testing.T) {
	config := testConfig(t)
	before := metav1.NewTime(time.Now().Add(-time.Hour))
	status := config.desiredStatus(corev1.NodeStatus{}, before)
	for i := range status.Conditions {
		status.Conditions[i].Status = corev1.ConditionUnknown
	}
	now := metav1.Now()
	for _, condition := range config.desiredStatus(status, now).Conditions {
		if condition.Status == corev1.ConditionUnknown || condition.LastTransitionTime != now || condition.LastHeartbeatTime != now {
			t.Errorf("got %v", condition)
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	if err := testConfig(t).Complete(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Config){
		"--node-name": func(c *Config) { c.NodeName = "" },
		"--root-dir":  func(c *Config) { c.RootDir = "" },
		"--node-ips":  func(c *Config) { c.NodeIPs = nil },
		"--pod-cidrs": func(c *Config) { c.PodCIDRs = nil },
		"address":     func(c *Config) { c.ClusterDNS = []string{"dns.example"} },
		"--client-ca": func(c *Config) { c.API.CertFile, c.API.KeyFile = "x", "y" },
		"exist":       func(c *Config) { c.Images = "/no/such/directory" },
	} {
		config := testConfig(t)
		change(config)
		if err := config.Complete(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
	}
}

func TestNeedsBinding(t *testing.T) {
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{Spec: corev1.PodSpec{SchedulerName: corev1.DefaultSchedulerName}}
		change(p)
		return p
	}
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"new":      {pod(func(*corev1.Pod) {}), true},
		"bound":    {pod(func(p *corev1.Pod) { p.Spec.NodeName = "node" }), false},
		"other":    {pod(func(p *corev1.Pod) { p.Spec.SchedulerName = "other" }), false},
		"gated":    {pod(func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "gate"}} }), false},
		"deleting": {pod(func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }), false},
	} {
		if got := needsBinding(test.pod); got != test.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
