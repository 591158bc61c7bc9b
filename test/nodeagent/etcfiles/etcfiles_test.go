// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package etcfiles

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func pod(change func(*corev1.PodSpec)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "space", Name: "web-0"}, Spec: corev1.PodSpec{DNSPolicy: corev1.DNSClusterFirst}}
	change(&p.Spec)
	return p
}

func TestHostname(t *testing.T) {
	for want, p := range map[string]*corev1.Pod{
		"web-0":                  pod(func(*corev1.PodSpec) {}),
		"other":                  pod(func(s *corev1.PodSpec) { s.Hostname = "other" }),
		"node":                   pod(func(s *corev1.PodSpec) { s.Hostname, s.HostNetwork = "other", true }),
		strings.Repeat("a", 62):  {ObjectMeta: metav1.ObjectMeta{Name: strings.Repeat("a", 62) + "-b"}},
		strings.Repeat("ab", 31): {ObjectMeta: metav1.ObjectMeta{Name: strings.Repeat("ab", 31)}},
	} {
		if got := Hostname(p, "node"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestHosts(t *testing.T) {
	p := pod(func(s *corev1.PodSpec) {
		s.Subdomain = "web"
		s.HostAliases = []corev1.HostAlias{{IP: "192.0.2.1", Hostnames: []string{"a", "b"}}}
	})
	got := Hosts(p, "web-0", []netip.Addr{netip.MustParseAddr("10.81.0.2"), netip.MustParseAddr("fd00:81::2")}, "cluster.local")
	for _, want := range []string{
		"127.0.0.1\tlocalhost\n",
		"10.81.0.2\tweb-0.web.space.svc.cluster.local\tweb-0\n",
		"fd00:81::2\tweb-0.web.space.svc.cluster.local\tweb-0\n",
		"192.0.2.1\ta\tb\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
}

func TestResolv(t *testing.T) {
	dns := DNS{
		Servers: []string{"10.96.0.10", "fd00:96::a"},
		Domain:  "cluster.local",
		Host:    "# by hand\nsearch old.example\nsearch example.com\nnameserver 192.0.2.53\noptions edns0\n",
	}
	cluster := "search space.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.96.0.10\nnameserver fd00:96::a\n"
	host := "search example.com\nnameserver 192.0.2.53\noptions edns0\n"
	config := &corev1.PodDNSConfig{
		Nameservers: []string{"10.96.0.10", "192.0.2.1"},
		Searches:    []string{"more.example"},
		Options:     []corev1.PodDNSConfigOption{{Name: "ndots", Value: ptr.To("2")}, {Name: "edns0"}},
	}
	for name, test := range map[string]struct {
		change func(*corev1.PodSpec)
		want   string
	}{
		"ClusterFirst":            {func(*corev1.PodSpec) {}, cluster + "options ndots:5\n"},
		"Default":                 {func(s *corev1.PodSpec) { s.DNSPolicy = corev1.DNSDefault }, host},
		"None":                    {func(s *corev1.PodSpec) { s.DNSPolicy = corev1.DNSNone }, ""},
		"host network":            {func(s *corev1.PodSpec) { s.HostNetwork = true }, host},
		"ClusterFirstWithHostNet": {func(s *corev1.PodSpec) { s.DNSPolicy, s.HostNetwork = corev1.DNSClusterFirstWithHostNet, true }, cluster + "options ndots:5\n"},
		"with a configuration": {func(s *corev1.PodSpec) { s.DNSConfig = config },
			"search space.svc.cluster.local svc.cluster.local cluster.local more.example\nnameserver 10.96.0.10\nnameserver fd00:96::a\nnameserver 192.0.2.1\noptions ndots:2 edns0\n"},
		"a configuration alone": {func(s *corev1.PodSpec) { s.DNSPolicy, s.DNSConfig = corev1.DNSNone, config },
			"search more.example\nnameserver 10.96.0.10\nnameserver 192.0.2.1\noptions ndots:2 edns0\n"},
	} {
		if diff := cmp.Diff(test.want, dns.Resolv(pod(test.change))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
