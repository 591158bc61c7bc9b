// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package gather

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"
)

// redacted replaces what must not be in a bundle.
const redacted = "REDACTED"

// rules find credentials in text. $1 and $2 are kept.
var rules = []struct {
	pattern *regexp.Regexp
	with    string
}{
	// JSON Web Tokens, such as those of service accounts.
	{regexp.MustCompile(`eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?`), redacted},
	{regexp.MustCompile(`(?i)\b((?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{6,}`), "${1}" + redacted},
	// Directives of Corefiles: credentials of Route 53 and etcd, and keys of TSIG.
	{regexp.MustCompile(`(?m)^((?:[0-9]{4}-[0-9-]+T[0-9:.]+\S* )?\s*(?:aws_access_key|credentials|secret)\s).*$`), "${1}" + redacted},
	// The same in a JSON string.
	{regexp.MustCompile(`((?:\\n|\\t|\s)(?:aws_access_key|credentials)\s+)(?:[^\s\\"]+\s+)?[^\s\\"]+`), "${1}" + redacted},
	// Bootstrap tokens, and access keys of AWS.
	{regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`), redacted},
	{regexp.MustCompile(`\bAKIA[0-9A-Z]{16}\b`), redacted},
	// Credentials in URLs.
	{regexp.MustCompile(`([a-z][a-z0-9+.-]*://)[^\s/"'\\]+@`), "${1}" + redacted + "@"},
}

// encoded is text that may be something else in base64, also in lines.
var encoded = regexp.MustCompile(`[A-Za-z0-9+/_-]{40,}(?:(?:\\[nr]|[\r\n])+[ \t]*[A-Za-z0-9+/_-]+)*={0,2}`)

// lineBreaks are those in such text.
var lineBreaks = regexp.MustCompile(`(?:\\[nr]|\s)+`)

// maxText is the size of the longest text of an object that is searched, which takes long, and kept.
const maxText = 1 << 20

// maxDepth limits how often text is decoded.
const maxDepth = 3

// redact removes credentials from text.
func redact(text string) string { return redactAt(text, 0) }

// redactLog is like redact. Of a log, only lines are left out: members have a part in what is logged, and
// should not be able to remove the rest.
func redactLog(text string) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		if isKubeconfig(line) {
			line = redacted + " kubeconfig\n"
		}
		kept.WriteString(line)
	}
	return redactParts(kept.String(), 0)
}

func redactAt(text string, depth int) string {
	if isKubeconfig(text) {
		return redacted + " kubeconfig"
	}
	return redactParts(text, depth)
}

func redactParts(text string, depth int) string {
	text = redactNamed(redactKeys(text))
	for _, rule := range rules {
		text = rule.pattern.ReplaceAllString(text, rule.with)
	}
	if depth >= maxDepth {
		return text
	}
	return encoded.ReplaceAllStringFunc(text, func(found string) string {
		plain := strings.TrimRight(lineBreaks.ReplaceAllString(found, ""), "=")
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			for offset := range 4 { // something else before it, such as a path, shifts it
				part := plain[offset:]
				decoded, err := encoding.DecodeString(part[:len(part)-len(part)%4])
				if err == nil && redactAt(string(decoded), depth+1) != string(decoded) {
					return redacted
				}
			}
		}
		return found
	})
}

// isKubeconfig reports whether text is a kubeconfig with users.
func isKubeconfig(text string) bool {
	return len(text) < 1<<20 && kubeconfigKind.MatchString(text) && kubeconfigUsers.MatchString(text) && !strings.Contains(text, "KubeProxyConfiguration")
}

var (
	kubeconfigKind  = regexp.MustCompile(`(?:^|[\s"'{,])kind\\*["']?\s*:\s*\\*["']?Config\b`)
	kubeconfigUsers = regexp.MustCompile(`(?:^|[\s"'{,])users\\*["']?\s*:`)
)

// lastApplied has what a user applied, also that of a Secret.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// knownAnnotations are the domains whose annotations are of use. Others may have anything.
var knownAnnotations = regexp.MustCompile(`^(?:[a-z0-9.-]+\.)?(?:kubernetes\.io|k8s\.io|x-k8s\.io|mcs-apiserver\.io|helm\.sh)/`)

// plainVariables are environment variables whose values are no secrets. Those of others may be.
var plainVariables = regexp.MustCompile(`^(?:POD_[A-Z_]+|NODE_NAME|GO[A-Z]+|(?i:https?_proxy|no_proxy))$`)

// clean removes credentials from an object, and what is of no use.
func clean(object map[string]any) map[string]any {
	if metadata, ok := object["metadata"].(map[string]any); ok {
		delete(metadata, "managedFields")
	}
	cleaned, _ := cleanValue("", object).(map[string]any)
	return cleaned
}

// cleanValue removes credentials from a value with a name.
func cleanValue(name string, value any) any {
	switch value := value.(type) {
	case map[string]any:
		cleanPair(name, value)
		for key := range value {
			if (name == "annotations" || name == "exportedAnnotations") && (key == lastApplied || !knownAnnotations.MatchString(key)) {
				delete(value, key)
				continue
			}
			value[key] = cleanValue(key, value[key])
		}
		return value
	case []any:
		for i := range value {
			before := ""
			if i > 0 {
				before, _ = value[i-1].(string)
			}
			// The value of a flag may be an argument of its own.
			if text, ok := value[i].(string); ok && strings.HasPrefix(before, "-") && isSecretName(before) && !strings.HasPrefix(text, "-") {
				value[i] = redacted
				continue
			}
			value[i] = cleanValue(name, value[i])
		}
		return value
	case string:
		switch {
		case value != "" && isSecretName(name) && !isReference(name, value):
			return redacted
		case len(value) > maxText:
			return fmt.Sprintf("%s (%d characters)", redacted, len(value))
		}
		return redact(value)
	case float64:
		if isSecretName(name) {
			return redacted
		}
	}
	return value
}

// cleanPair removes the value of an environment variable, or of anything else with a name and a value.
func cleanPair(within string, pair map[string]any) {
	name, named := pair["name"].(string)
	if _, valued := pair["value"].(string); !named || !valued {
		return
	}
	if within == "env" && !plainVariables.MatchString(name) || isSecretName(name) {
		pair["value"] = redacted
	}
}

// describeSecret returns what a bundle contains of a Secret: nothing of its data.
func describeSecret(object map[string]any) map[string]any {
	described := describe(object)
	described["type"] = object["type"]
	return described
}

// describe returns an object with the names of its data only.
func describe(object map[string]any) map[string]any {
	metadata, _ := object["metadata"].(map[string]any)
	kept := map[string]any{}
	for _, key := range []string{"name", "namespace", "labels", "creationTimestamp", "deletionTimestamp", "uid", "resourceVersion"} {
		if value, ok := metadata[key]; ok {
			kept[key] = value
		}
	}
	described := map[string]any{"metadata": kept}
	for _, field := range []string{"data", "binaryData", "stringData"} {
		data, ok := object[field].(map[string]any)
		if !ok {
			continue
		}
		keys := map[string]any{}
		for key, value := range data {
			text, _ := value.(string)
			keys[key] = fmt.Sprintf("(%d characters)", len(text))
		}
		described[field] = keys
	}
	cleaned, _ := cleanValue("", described).(map[string]any)
	return cleaned
}
