// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"strings"
	"testing"
)

// A fault in one direction drops packets of the first cluster, where they arrive.
func TestFaultInOneDirectionDropsWhatTheSecondClusterReceives(t *testing.T) {
	fabric := &Fabric{ID: "test", Subnet: 1}
	east, west := fabric.Network("east", 0, 1, ""), fabric.Network("west", 1, 1, "")
	for _, fault := range []Fault{{Cut: true}, {Loss: 30}} {
		fault.Clusters, fault.OneWay = [2]string{"east", "west"}, true
		if rules := dropRules(fault, west); len(rules) > 0 {
			t.Errorf("%+v: east drops packets: %v", fault, rules)
		}
		rules := dropRules(fault, east)
		if len(rules) != 2 {
			t.Errorf("%+v: west has rules %v, want one for each IP family", fault, rules)
		}
		for _, rule := range rules {
			if strings.Contains(rule, "daddr") || !strings.Contains(rule, "saddr") {
				t.Errorf("%+v: west does not drop packets from east alone: %s", fault, rule)
			}
		}
		fault.OneWay = false
		if len(dropRules(fault, west)) == 0 || len(dropRules(fault, east)) == 0 {
			t.Errorf("%+v: not in both directions", fault)
		}
	}
}
