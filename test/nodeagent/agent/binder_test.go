// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func testNode(name string, change func(*corev1.Node)) corev1.Node {
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if change != nil {
		change(&node)
	}
	return node
}

func ownedPod(owner, node string) corev1.Pod {
	pod := corev1.Pod{Spec: corev1.PodSpec{NodeName: node}}
	pod.OwnerReferences = []metav1.OwnerReference{{UID: types.UID(owner), Controller: ptr.To(true)}}
	return pod
}

func TestChooseNode(t *testing.T) {
	notReady := func(node *corev1.Node) { node.Status.Conditions[0].Status = corev1.ConditionUnknown }
	cordoned := func(node *corev1.Node) { node.Spec.Unschedulable = true }
	tainted := func(node *corev1.Node) {
		node.Spec.Taints = []corev1.Taint{{Key: "key", Effect: corev1.TaintEffectNoSchedule}}
	}
	pod := ownedPod("set", "")
	tolerant := ownedPod("set", "")
	tolerant.Spec.Tolerations = []corev1.Toleration{{Key: "key", Operator: corev1.TolerationOpExists}}
	alone := corev1.Pod{}
	terminating := ownedPod("set", "a")
	terminating.DeletionTimestamp = &metav1.Time{}
	both := []corev1.Node{testNode("a", nil), testNode("b", nil)}
	for name, test := range map[string]struct {
		pod   *corev1.Pod
		nodes []corev1.Node
		pods  []corev1.Pod
		want  string
	}{
		"first of equals":                   {&pod, both, nil, "a"},
		"spread from the owner's Pods":      {&pod, both, []corev1.Pod{ownedPod("set", "a")}, "b"},
		"Pods of other owners do not count": {&pod, both, []corev1.Pod{ownedPod("other", "a")}, "a"},
		"terminating Pods do not count":     {&pod, both, []corev1.Pod{terminating}, "a"},
		"Pods without an owner":             {&alone, both, []corev1.Pod{{Spec: corev1.PodSpec{NodeName: "a"}}}, "a"},
		"not ready":                         {&pod, []corev1.Node{testNode("a", notReady), testNode("b", nil)}, nil, "b"},
		"cordoned":                          {&pod, []corev1.Node{testNode("a", cordoned), testNode("b", nil)}, nil, "b"},
		"tainted":                           {&pod, []corev1.Node{testNode("a", tainted), testNode("b", nil)}, nil, "b"},
		"tolerated taint":                   {&tolerant, []corev1.Node{testNode("a", tainted), testNode("b", nil)}, nil, "a"},
		"none":                              {&pod, []corev1.Node{testNode("a", cordoned)}, nil, ""},
	} {
		if got := chooseNode(test.pod, test.nodes, test.pods); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}
