// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package gather

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

const privateKey = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIhushhush\nsecondline\n-----END EC PRIVATE KEY-----"

const kubeconfig = "apiVersion: v1\nkind: Config\nclusters: []\nusers:\n- name: x\n  user:\n    token: opaque-hushhush\n"

// R565: what looks like a credential is removed, wherever it is.
func TestCredentialsAreRedacted(t *testing.T) {
	token := token()
	encode := base64.StdEncoding.EncodeToString
	quoted, err := json.Marshal(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"token":                    "request with " + token + " failed",
		"header":                   "Authorization: Bearer hushhush-1234 and more",
		"basic":                    `{"Authorization":"Basic aHVzaGh1c2g6aHVzaA=="} hush`,
		"private key":              "key " + privateKey,
		"private key without end":  "-----BEGIN RSA PRIVATE KEY-----\nhushhush",
		"private key in JSON":      strings.ReplaceAll(privateKey, "\n", `\n`),
		"private key in base64":    "client-key: " + encode([]byte(privateKey)),
		"field":                    "    token: hushhush",
		"field in JSON":            `{"password":"hushhush"}`,
		"field in JSON in JSON":    `{"x":"{\"token\":\"hushhush\"}"}`,
		"field in a log":           `msg="x" token="hushhush" other=1`,
		"client key":               "client-key-data: hushhush",
		"client secret":            `clientSecret = "hushhush"`,
		"kubeconfig":               kubeconfig,
		"kubeconfig in JSON":       string(quoted),
		"kubeconfig in base64":     encode([]byte(kubeconfig)),
		"kubeconfig twice encoded": encode([]byte(encode([]byte(kubeconfig)))),
		"bootstrap token":          "use hushhu.hushhush12345678 to join",
		"URL":                      "https://user:hushhush@example.com/path",
		"AWS":                      "AKIAHUSHHUSHHUSHHUSH hush",
		"Corefile":                 "route53 x {\n    aws_access_key id hushhush\n}",
		"secret with spaces":       `password: "correct hushhush battery"`,
		"secret with a comma":      `password="a,hushhush"`,
		"plain secret with spaces": "password: correct hushhush battery",
		"block":                    "  token: |\n    hushhush\n    hushhush\n  other: x",
		"camel case":               `{"bearerToken":"hushhush"}`,
		"camel case password":      `{"dbPassword": "hushhush"}`,
		"secret":                   `{"secret":"hushhush"}`,
		"cookie":                   "Cookie: session=hushhush; other=hushhush",
		"flag":                     "sh -c 'x --password hushhush'",
		"wrapped base64":           wrap(encode([]byte(strings.Repeat("x", 30)+"\n"+privateKey+strings.Repeat("y", 99))), "\n"),
		"wrapped base64 in JSON":   wrap(encode([]byte(privateKey)), `\n`),
		"base64 after a path":      "path/" + encode([]byte("apiVersion: v1\n"+privateKey)),
		"TSIG":                     "tsig {\n  secret name. hushhush\n}",
		"header in a log":          "2026-11-18T09:00:00.1Z E1118 09:00:00 x.go:1] request failed: Authorization: Bearer hushhush",
		"short header in a log":    "x: Authorization: Basic hushhush",
		"header in a map":          "map[Accept:[*/*] Authorization:[Bearer hushhush]]",
		"header in a command":      `sh -c 'curl -H "Authorization: Bearer hushhush" https://x'`,
		"password in a log":        "2026-11-18T09:00:00.1Z password: correct hushhush battery",
		"block in a log":           "2026-11-18T09:00:00.1Z token: |\n2026-11-18T09:00:00.2Z   hushhush\n2026-11-18T09:00:00.3Z other: x",
		"Corefile in a log":        "2026-11-18T09:00:00.1+01:00   secret name. hushhush",
		"URL with two at signs":    "http://user:p@hushhush@proxy:3128/",
	} {
		if got := redact(text); strings.Contains(strings.ToLower(got), "hushhush") || !strings.Contains(got, redacted) {
			t.Errorf("%s: %q became %q", name, text, got)
		}
	}
}

// wrap returns text in lines of 76 characters.
func wrap(text, end string) string {
	var lines []string
	for part := range slices.Chunk([]byte(text), 76) {
		lines = append(lines, string(part))
	}
	return strings.Join(lines, end)
}

// R565: names of fields, annotations, environment variables and arguments tell that values are credentials.
func TestValuesOfObjectsAreRedacted(t *testing.T) {
	var object map[string]any
	if err := json.Unmarshal([]byte(`{"metadata":{"name":"x","annotations":{"example.com/token":"hushhush","example.com/note":"hushhush","mcs-apiserver.io/kept":"yes"}},"spec":{"exportedAnnotations":{"example.com/hook":"hushhush"}},"pin":{"passwd":4711},
		"password":"hushhush","config":{"idToken":"hushhush","secretName":"member-west","topologyKey":"zone"},
		"env":[{"name":"DB_PASS","value":"hushhush"},{"name":"MYSQL_PWD","value":"hushhush"},{"name":"DATABASE_DSN","value":"hushhush"},{"name":"X","value":"hushhush"},{"name":"GOMEMLIMIT","value":"100MiB"},
			{"name":"HTTPS_PROXY","value":"http://user:hushhush@proxy"}],
		"args":["--password","hushhush","--v","2"]}`), &object); err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal(clean(object))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(encoded), "hushhush") || strings.Contains(string(encoded), "4711") {
		t.Errorf("got %s", encoded)
	}
	for _, want := range []string{`"mcs-apiserver.io/kept":"yes"`, "member-west", "zone", "100MiB", "@proxy", `"--v","2"`} {
		if !strings.Contains(string(encoded), want) {
			t.Errorf("%s is missing in %s", want, encoded)
		}
	}
}

// R565: plugins of CoreDNS have credentials of their own.
func TestCorefilesAreRedacted(t *testing.T) {
	got := redactCorefile(".:53 {\n  netbox { token hushhush }\n  redis {\n    password hushhush hushhush\n  }\n  tsig {\n    secret name. hushhush\n  }\n  kubernetes cluster.local\n}")
	if strings.Contains(got, "hushhush") || !strings.Contains(got, "kubernetes cluster.local\n}") {
		t.Errorf("got %s", got)
	}
}

// R565: what members have logged does not remove the rest of a log.
func TestLogsStay(t *testing.T) {
	for _, text := range []string{"before\n-----BEGIN PRIVATE KEY-----\n" + strings.Repeat("a line of the log\n", 2000) + "evidence\n", "kind: Config\nbefore\nusers:\nevidence\n"} {
		if got := redactLog(text); !strings.Contains(got, "before") || !strings.Contains(got, "evidence") {
			t.Errorf("%q is left", got)
		}
	}
}

// What is needed to find out what is wrong stays.
func TestOtherTextStays(t *testing.T) {
	certificate := base64.StdEncoding.EncodeToString([]byte("-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIBADAKBggqhkjOPQQDAjAVMRMwEQYDVQQD\n-----END CERTIFICATE-----"))
	for _, text := range []string{
		"", "I1118 09:00:00.000000 feed.go:12] \"Member is reachable\" cluster=\"west\" secret=\"mcs-system/member-west\"", "--token-file=/var/run/token",
		"Kind=Member, Namespace=shop", certificate, "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0bb822d1562ba2d0f6d5f1", "web.shop.svc.clusterset.local",
		"10.100.0.1:8080 and [fd00::1]:443", "https://east.example:6443/apis", "permission denied: User \"dev\" cannot list resource \"secrets\"",
		"cluster.local {\n  kubernetes cluster.local\n  forward . /etc/resolv.conf\n}", "kind: KubeProxyConfiguration\nmode: nftables\n",
	} {
		if got := redact(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// R565: nothing of the data of a Secret is kept.
func TestSecretsAreDescribed(t *testing.T) {
	var object map[string]any
	if err := json.Unmarshal([]byte(`{"metadata":{"name":"member-west","namespace":"mcs-system","creationTimestamp":"2026-01-01T00:00:00Z",
		"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"hushhush","other":"hushhush"},"managedFields":[{"manager":"hushhush"}]},
		"type":"clusterset.mcs-apiserver.io/member","data":{"kubeconfig":"aHVzaGh1c2g=","cluster-id":"d2VzdA=="},"stringData":{"x":"hushhush"}}`), &object); err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal(describeSecret(object))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"data":{"cluster-id":"(8 characters)","kubeconfig":"(12 characters)"},"metadata":{"creationTimestamp":"2026-01-01T00:00:00Z","name":"member-west","namespace":"mcs-system"},"stringData":{"x":"(8 characters)"},"type":"clusterset.mcs-apiserver.io/member"}`
	if string(encoded) != want {
		t.Errorf("got %s", encoded)
	}
}
