// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package corefile

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const zone = "clusterset.local"

// kubeadm is the Corefile of kubeadm.
const kubeadm = `.:53 {
    errors
    health {
       lameduck 5s
    }
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    prometheus :9153
    forward . /etc/resolv.conf {
       max_concurrent 1000
    }
    cache 30 {
       disable success cluster.local
       disable denial cluster.local
    }
    loop
    reload
    loadbalance
}
`

// k3s imports server blocks and parts of a server block from files.
const k3s = `.:53 {
    errors
    kubernetes cluster.local in-addr.arpa ip6.arpa {
      pods insecure
    }
    hosts /etc/coredns/NodeHosts {
      ttl 60
      reload 15s
      fallthrough
    }
    reload
    import /etc/coredns/custom/*.override
}
import /etc/coredns/custom/*.server
`

func block() string { return Block(zone, []string{"53"}, nil) }

func mustParse(t *testing.T, text string) *Corefile {
	t.Helper()
	parsed, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// R378: the lexer reads what CoreDNS reads.
func TestTokens(t *testing.T) {
	for text, want := range map[string][]string{
		"a b\n\tc":              {"a", "b", "c"},
		"\ufeffa":               {"a"},
		"a # b { \"\nc":         {"a", "c"},
		"a#b c":                 {"a", "c"}, // the comment ends with the token that it is part of
		`"a b" c`:               {"a b", "c"},
		`"a\"b\c" a"b`:          {`a"b\c`, `a"b`},
		"\"a\nb\"c":             {"a\nb", "c"},
		"a\r\nb\rc":             {"a", "bc"},
		`""`:                    {""},
		"{$ENV} {%ENV%} .:53 {": {"{$ENV}", "{%ENV%}", ".:53", "{"},
		"# only a comment":      nil,
		"a\u00a0b":              {"a", "b"},
	} {
		tokens, unterminated := tokenize(File{Text: text})
		var got []string
		for _, token := range tokens {
			got = append(got, token.text)
		}
		if diff := cmp.Diff(want, got); diff != "" || unterminated {
			t.Errorf("%q: unexpected tokens (-want +got):\n%s", text, diff)
		}
	}
	if _, unterminated := tokenize(File{Text: `a "b`}); !unterminated {
		t.Error("quoted string without end was not noticed")
	}
}

// R378
func TestServersAreParsed(t *testing.T) {
	parsed := mustParse(t, `
(common) {
    errors
    bind 10.0.0.10 fd00::10
    reload
}
.:1053 dns://example.com, # the next line belongs to it
  tls://example.org
{
    import common
    kubernetes {$ZONE} {
        pods insecure
        nested {
            option
        }
    }
    import custom/*.override
}
import zones/*.server
clusterset.local. {
    forward . 192.0.2.1
}
`)
	ignored := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".start" || p.Last().String() == ".At" }, cmp.Ignore())
	want := &Corefile{
		Imports: []Import{{Pattern: "zones/*.server"}},
		Servers: []Server{
			{Keys: []string{".:1053", "dns://example.com", "tls://example.org"}, Ports: []string{"1053", "53"}, End: 18, Unread: []Import{{Pattern: "custom/*.override"}}, Directives: []Directive{
				{Name: "errors"},
				{Name: "bind", Args: []string{"10.0.0.10", "fd00::10"}},
				{Name: "reload"},
				{Name: "kubernetes", Args: []string{"{$ZONE}"}, Options: []Option{{Words: []string{"pods", "insecure"}}, {Words: []string{"nested"}}, {Words: []string{"option"}}}},
			}},
			{Keys: []string{"clusterset.local."}, Ports: []string{"53"}, End: 22, Directives: []Directive{{Name: "forward", Args: []string{".", "192.0.2.1"}}}},
		},
	}
	empty := cmp.FilterValues(func(a, b []string) bool { return len(a) == 0 && len(b) == 0 }, cmp.Ignore())
	if diff := cmp.Diff(want, parsed, ignored, empty, cmp.AllowUnexported(Server{})); diff != "" {
		t.Errorf("unexpected Corefile (-want +got):\n%s", diff)
	}
	cluster := parsed.Cluster()
	if cluster == nil || len(cluster.Named("bind")) != 1 || parsed.Cluster("1053") == nil || parsed.Cluster("853") != nil {
		t.Errorf("the cluster is served by %+v", cluster)
	}
	if !parsed.Uses("reload") || parsed.Uses("cache") {
		t.Error("wrong directives")
	}
	if server := parsed.ForZone("ClusterSet.local"); server == nil || server.Keys[0] != "clusterset.local." {
		t.Errorf("the zone has the server block %+v", server)
	}
	if parsed.MultiCluster(zone) != nil {
		t.Error("a zone that is forwarded is not served from ServiceImports")
	}
}

// R378: a zone is served from ServiceImports in a server block of its own or of others.
func TestMultiClusterZones(t *testing.T) {
	for text, want := range map[string]bool{
		kubeadm:           false,
		kubeadm + block(): true,
		"clusterset.local:53 example.com {\n kubernetes clusterset.local {\n multicluster clusterset.local.\n }\n}":      true,
		". {\n kubernetes cluster.local clusterset.local {\n multicluster other.local clusterset.local\n }\n}":           true,
		"(mcs) {\n kubernetes clusterset.local {\n multicluster clusterset.local\n }\n}\n.:53 {\n import mcs\n}":         true,
		". {\n kubernetes cluster.local {\n multicluster clusterset.example\n }\n}":                                      false,
		". {\n # kubernetes clusterset.local { multicluster clusterset.local }\n rewrite name \"clusterset.local\" a\n}": false,
	} {
		if got := mustParse(t, text).MultiCluster(zone) != nil; got != want {
			t.Errorf("got %t, want %t: %s", got, want, text)
		}
	}
	if server := mustParse(t, kubeadm+block()).Cluster(); server == nil || server.Keys[0] != ".:53" {
		t.Errorf("the cluster is served by %+v", server)
	}
	if server := mustParse(t, block()).Cluster(); server != nil {
		t.Errorf("the cluster is served by %+v, want none", server)
	}
}

// R378: nothing is added to a Corefile that cannot be read with certainty.
func TestInvalidCorefiles(t *testing.T) {
	for text, want := range map[string]string{
		".:53 {\n errors":    "line 1: a brace is not closed",
		".:53\nerrors\n":     "followed by no server block in braces",
		".:53":               "followed by no server block in braces",
		"a {\n}\n}":          "followed by no server block in braces",
		"{\n errors\n}":      "has no zone",
		"a {\n log \"x\n}\n": "does not end",
		"import\n. {\n}":     "import requires",
		"import a b\n":       "import takes one",
		"(a) {\nimport b\n}\n(b) {\nimport a\n}\n. {\nimport a\n}": "imported too often",
		begin + "\n": "is missing after the line",
		end + "\n":   "do not enclose one server block",
		begin + "\n" + end + "\n" + begin + "\n" + end: "do not enclose one server block",
	} {
		if _, err := Add(text, block()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got error %v, want %q", text, err, want)
		}
	}
}

// R377, R406
func TestAddedBlock(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"kubeadm": {kubeadm, kubeadm + `# BEGIN kubectl mcs dns: removed by ` + "`kubectl mcs dns disable`" + `
clusterset.local:53 {
    errors
    kubernetes clusterset.local {
        multicluster clusterset.local
        noendpoints
    }
}
# END kubectl mcs dns
`},
		"no line break at the end": {". {\n}", ". {\n}\n" + begin + "\n" + block() + end},
		"CRLF":                     {". {\r\n}\r\n", ". {\r\n}\r\n" + strings.ReplaceAll(begin+"\n"+block()+end+"\n", "\n", "\r\n")},
		"empty":                    {"", begin + "\n" + block() + end + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Add(test.text, block())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("unexpected text (-want +got):\n%s", diff)
			}
			parsed := mustParse(t, got)
			if server := parsed.MultiCluster(zone); server == nil || !server.Managed {
				t.Errorf("the zone has the server block %+v", server)
			}
		})
	}
	want := "clusterset.local:53 clusterset.local:5353 {\n    errors\n    bind eth0 {\n        except fd00::1\n    }\n    loadbalance\n    kubernetes clusterset.local {\n"
	copied := mustParse(t, ". {\n bind eth0 {\n  except fd00::1\n }\n loadbalance\n}").Servers[0].Directives
	if got := Block(zone, []string{"53", "5353"}, copied); !strings.HasPrefix(got, want) {
		t.Errorf("got server block %s", got)
	}
}

// R377: a server block that was changed, or that stands elsewhere by now, is removed
// with nothing else. Others are not touched.
func TestRemovedBlock(t *testing.T) {
	changed := begin + "\nclusterset.local {\n    cache\n    kubernetes clusterset.local {\n multicluster clusterset.local\n }\n}\n" + end + "\n"
	for name, test := range map[string]struct {
		text, want string
		removed    bool
	}{
		"none":                  {kubeadm, kubeadm, false},
		"added by hand":         {kubeadm + block(), kubeadm + block(), false},
		"changed, and not last": {kubeadm + changed + "a {\n}\n", kubeadm + "a {\n}\n", true},
		"first":                 {changed + kubeadm, kubeadm, true},
	} {
		got, removed, err := Remove(test.text)
		if err != nil || removed != test.removed || got != test.want {
			t.Errorf("%s: got %q, %t, %v", name, got, removed, err)
		}
	}
	for name, text := range map[string]string{
		"two servers":        begin + "\n" + block() + "a {\n}\n" + end,
		"no server":          kubeadm + begin + "\n" + end,
		"begins in a server": "a {\n" + begin + "\n}\nb {\n}\n" + end,
		"in a string":        "a {\n log \"\n" + begin + "\n" + end + "\n\"\n}\n",
	} {
		if got, removed, err := Remove(text); err == nil || removed || got != text {
			t.Errorf("%s: got %q, %t, %v", name, got, removed, err)
		}
	}
}

// R377: for every Corefile, removing restores what was there before, and only one
// server block is added.
func FuzzAddAndRemove(f *testing.F) {
	for _, text := range []string{
		"", kubeadm, k3s, strings.TrimSuffix(kubeadm, "\n"), strings.ReplaceAll(kubeadm, "\n", "\r\n"),
		"a {\n}\r", "\ufeffa {\n}", "a {\n log \"}\" # {\n}\n\n\n", "(s) {\n}\na b, c:53 {\n import s\n}\nimport x", begin, "a {\n}\n" + begin + "\n" + block() + end,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		checkRestored(t, text)
	})
}

// checkRestored adds the server block and removes it again, and reports whether the
// text is a Corefile.
func checkRestored(t *testing.T, text string) bool {
	t.Helper()
	before, err := Parse(text)
	added, addErr := Add(text, block())
	if err != nil || addErr != nil {
		return false
	}
	if !strings.HasPrefix(added, text) {
		t.Fatalf("text was changed:\n%q\n%q", text, added)
	}
	after := mustParse(t, added)
	if len(after.Servers) != len(before.Servers)+1 || !after.Servers[len(before.Servers)].Managed || after.MultiCluster(zone) == nil {
		t.Fatalf("unexpected servers %+v in %q", after.Servers, added)
	}
	if _, err := Add(added, block()); err == nil {
		t.Fatalf("a second server block was added to %q", added)
	}
	removed, ok, err := Remove(added)
	if err != nil || !ok || removed != text {
		t.Fatalf("removed %t (%v):\n%q\nwant\n%q", ok, err, removed, text)
	}
	return true
}

// R377: fuzzing rarely composes what is read as a Corefile.
func TestComposedCorefilesAreRestored(t *testing.T) {
	parts := []string{
		" ", "\n", "\r\n", "\t", "{", "}", "#", "\"", "\\", ",", ".", ".:53 {\n", "a.example:53, b {", "errors\n", "}\n", "(s) {\n", "import s\n", "import x/*.server",
		"# comment", "kubernetes cluster.local {\n ttl 1\n}\n", "\ufeff", begin, end, begin + "\n", "\n" + end + "\n", block(), kubeadm, "{$ENV}", "\r",
	}
	random := rand.New(rand.NewPCG(1, 2))
	accepted := 0
	for range 10000 {
		var text strings.Builder
		for range random.IntN(9) {
			text.WriteString(parts[random.IntN(len(parts))])
		}
		if checkRestored(t, text.String()) {
			accepted++
		}
	}
	if accepted < 200 {
		t.Errorf("only %d texts are Corefiles", accepted)
	}
}

// R403: imported files are read as CoreDNS reads them, with those that they import, and
// relative to the file that imports them.
func TestImportedFiles(t *testing.T) {
	files := map[string]File{
		"/etc/coredns/Corefile zones/a":        {"/etc/coredns/zones/a", "import b\n"},
		"/etc/coredns/zones/a b":               {"/etc/coredns/zones/b", kubeadm + "\n" + begin + "\n" + block() + end},
		"/etc/coredns/Corefile x.override":     {"/etc/coredns/x.override", "bind lo\nimport y"},
		"/etc/coredns/x.override y":            {"/etc/coredns/y", "reload"},
		"/etc/coredns/Corefile brace.override": {"/etc/coredns/brace.override", "}\nx {\n"},
		"/etc/coredns/Corefile itself":         {"/etc/coredns/Corefile", "import itself"},
	}
	parse := func(text string) (*Corefile, error) {
		return ParseFiles(File{"/etc/coredns/Corefile", text}, "53", func(from, pattern string) ([]File, bool) {
			file, ok := files[from+" "+pattern]
			if !ok {
				return nil, false
			}
			return []File{file}, true
		})
	}
	parsed, err := parse("a {\n import x.override\n import unknown\n}\nimport zones/a\n")
	if err != nil {
		t.Fatal(err)
	}
	server := parsed.MultiCluster(zone)
	if server == nil || !server.Managed || server.At.File != "/etc/coredns/zones/b" || parsed.Managed || parsed.Doubt() != "" {
		t.Errorf("the zone has the server block %+v; doubt %q", server, parsed.Doubt())
	}
	if a := parsed.ForZone("a"); len(a.Named("bind")) != 1 || len(a.Named("reload")) != 1 || len(a.Unread) != 1 || a.Unread[0].Pattern != "unknown" {
		t.Errorf("unexpected server block %+v", a)
	}
	for text, want := range map[string]string{
		"import itself":                  "imported too often",
		"a {\n import brace.override\n}": "line 1 of /etc/coredns/brace.override: a brace is not opened",
	} {
		if _, err := parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got error %v, want %q", text, err, want)
		}
	}
}

// R403: where zones are not known with certainty, it is said why.
func TestDoubts(t *testing.T) {
	for text, want := range map[string]string{
		kubeadm:                   "",
		"a {\n import x/*\n}":     "", // whose zone is known
		kubeadm + "import x\n":    `line 24 imports "x", which this command cannot read`,
		"import {$FILE}":          `imports "{$FILE}"`,
		"a {\n}\n{$ZONE} {\n}":    `the zone "{$ZONE}" in line 3 depends on an environment variable`,
		".:{%PORT%} {\n}":         "depends on an environment variable",
		"a {\n bind {$POD_IP}\n}": "",
	} {
		if got := mustParse(t, text).Doubt(); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// R404: the server block of the cluster is not removed with the zone.
func TestRemovalByHand(t *testing.T) {
	for text, want := range map[string]string{
		kubeadm + block(): `remove the server block "clusterset.local:53", which begins in line 24 and ends in line 30`,
		".:53 {\n kubernetes cluster.local clusterset.local {\n  multicluster clusterset.local\n }\n}":              `keep the server block ".:53" in line 1, because it serves other names too; in its plugin kubernetes, remove clusterset.local from "multicluster" in line 3, and from the zones in line 2`,
		".:53 {\n kubernetes cluster.local\n kubernetes clusterset.local {\n  multicluster clusterset.local\n }\n}": "and remove only its plugin kubernetes in line 3",
	} {
		if got := mustParse(t, text).MultiCluster(zone).Removal(zone); !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// R379: blocks on other ports are others.
func TestPortsOfServers(t *testing.T) {
	parsed := mustParse(t, "tls://.:853 {\n kubernetes cluster.local\n}\n.:53 {\n kubernetes cluster.local\n}\nclusterset.local:54 {\n kubernetes clusterset.local {\n multicluster clusterset.local\n}\n}\n")
	if s := parsed.Cluster("53"); s == nil || s.Keys[0] != ".:53" {
		t.Errorf("the cluster is served by %+v", s)
	}
	if parsed.MultiCluster(zone, "53") != nil || parsed.ForZone(zone, "53", "55") != nil || parsed.MultiCluster(zone, "53", "54") == nil {
		t.Error("wrong ports")
	}
}
