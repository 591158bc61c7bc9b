// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package gather

import (
	"regexp"
	"slices"
	"strings"
)

// maxKey limits how much is taken for a private key without an end.
const maxKey = 16 << 10

var (
	keyBegin = regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----`)
	keyEnd   = regexp.MustCompile(`-----END [A-Z0-9 ]*PRIVATE KEY-----`)
)

// redactKeys removes private keys, also without an end, and with escaped line breaks.
func redactKeys(text string) string {
	var kept strings.Builder
	for {
		begin := keyBegin.FindStringIndex(text)
		if begin == nil {
			kept.WriteString(text)
			return kept.String()
		}
		kept.WriteString(text[:begin[0]] + redacted + " private key")
		rest := text[begin[1]:]
		end := min(maxKey, len(rest))
		if found := keyEnd.FindStringIndex(rest[:end]); found != nil {
			end = found[1]
		}
		text = rest[end:]
	}
}

// words are those of a name in any case: camel, snake or kebab.
var words = regexp.MustCompile(`[A-Z]+(?:[a-z]+|\b|[^A-Za-z])|[A-Z]?[a-z]+|[A-Z]+`)

var (
	secretWords = []string{
		"token", "tokens", "password", "passwords", "passwd", "passphrase", "pass", "pwd", "secret", "secrets", "credential", "credentials", "auth", "authorization",
		"dsn", "cookie", "apikey", "accesskey", "secretkey", "privatekey",
	}
	// secretKinds make a key or a string secret: an encryption key, but no topology key.
	secretKinds = []string{"api", "access", "secret", "private", "encryption", "client", "signing", "session", "master", "account", "ssh", "connection"}
	// plainEnds make a name that of something about a secret.
	plainEnds = []string{"name", "names", "ref", "file", "files", "path", "dir", "namespace", "type", "types", "id", "url", "endpoint", "seconds", "ttl", "expiry", "time", "timestamp", "version", "count", "mode", "policy"}
)

// isSecretName reports whether what has this name is a credential.
func isSecretName(name string) bool {
	found := words.FindAllString(name, -1)
	for i := range found {
		found[i] = strings.ToLower(strings.Trim(found[i], "_-.0123456789"))
	}
	if len(found) == 0 || slices.Contains(plainEnds, found[len(found)-1]) {
		return false
	}
	for i, word := range found {
		if slices.Contains(secretWords, word) || i > 0 && (word == "key" || word == "string") && slices.Contains(secretKinds, found[i-1]) {
			return true
		}
	}
	return false
}

var reference = regexp.MustCompile(`^[a-z0-9.-]+/[a-z0-9.-]+$`)

// isReference reports whether a value is the name of a Secret, as logs have it, and not its content.
func isReference(name, value string) bool {
	return strings.EqualFold(name, "secret") && reference.MatchString(value)
}

var (
	// named is a name and what separates it from its value, in YAML, JSON, JSON within JSON, and logs.
	named = regexp.MustCompile(`([A-Za-z][A-Za-z0-9_.-]*)(?:\\*["'])?[ \t]*[:=][ \t]*`)
	// flagged is a flag before its value.
	flagged = regexp.MustCompile(`(-{1,2}[A-Za-z][A-Za-z0-9_.-]*)[ \t]+`)
	opening = regexp.MustCompile(`^\\*["']`)
	plain   = regexp.MustCompile("^[^\\s\"'\\\\}{`]+")
	scheme  = regexp.MustCompile(`^\[?(?i:bearer|basic|digest|negotiate|token|apikey)[ \t]+`)
	stamp   = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(?:Z|[+-][0-9]{2}:[0-9]{2}) `)
	block   = regexp.MustCompile(`^[|>][0-9+-]*[ \t]*\r?\n`)
)

// redactNamed removes values whose names say that they are credentials.
func redactNamed(text string) string {
	for _, pattern := range []*regexp.Regexp{named, flagged} {
		var kept strings.Builder
		at := 0
		for _, found := range pattern.FindAllStringSubmatchIndex(text, -1) {
			begin := found[1]
			name := text[found[2]:found[3]]
			if found[0] < at || !isSecretName(name) {
				continue
			}
			end := begin + valueEnd(text, found[0], begin, pattern == named)
			value := text[begin:end]
			if value == "" || isReference(name, strings.Trim(value, `\"'`)) || pattern == flagged && strings.HasPrefix(value, "-") {
				continue
			}
			kept.WriteString(text[at:begin] + redacted)
			at = end
		}
		kept.WriteString(text[at:])
		text = kept.String()
	}
	return text
}

// valueEnd returns the length of the value that begins at a position.
func valueEnd(text string, name, begin int, wholeLine bool) int {
	rest := text[begin:]
	line := len(rest)
	if end := strings.IndexAny(rest, "\r\n"); end >= 0 {
		line = end
	}
	if quote := opening.FindString(rest); quote != "" {
		for at := len(quote); at < len(rest); at++ {
			end := strings.Index(rest[at:], quote)
			if end < 0 {
				return line
			}
			if at += end; rest[at-1] != '\\' {
				return at + len(quote)
			}
		}
		return line
	}
	indent := strings.LastIndexByte(text[:name], '\n') + 1
	before := unstamped(text[indent:name])
	if found := block.FindString(rest); found != "" && strings.TrimLeft(before, " -") == "" {
		end := len(found)
		for next := range strings.Lines(rest[end:]) {
			content := unstamped(next)
			if trimmed := strings.TrimLeft(content, " "); strings.TrimSpace(content) != "" && len(content)-len(trimmed) <= len(before) {
				break
			}
			end += len(next)
		}
		return end
	}
	// A line of YAML, or of a header, is the value as a whole.
	if wholeLine && strings.TrimLeft(before, " \t-") == "" && strings.Contains(text[name:begin], ": ") {
		return line
	}
	// The scheme of a header is no secret, but what follows it.
	with := len(scheme.FindString(rest))
	return with + len(plain.FindString(rest[with:]))
}

// unstamped returns a line of a log without the time that the kubelet puts before it.
func unstamped(line string) string { return line[len(stamp.FindString(line)):] }

// directive is a directive of a Corefile, and its arguments.
var directive = regexp.MustCompile(`((?:^|[\s{])([A-Za-z_][A-Za-z0-9_]*)[ \t]+)([^\n{}]+)`)

// redactCorefile removes the arguments of directives whose names say that they are credentials.
func redactCorefile(text string) string {
	var lines []string
	for _, line := range strings.Split(text, "\n") {
		at := 0
		for at < len(line) {
			found := directive.FindStringSubmatchIndex(line[at:])
			if found == nil {
				break
			}
			if name := line[at+found[4] : at+found[5]]; isSecretName(name) || name == "aws_access_key" {
				line = line[:at+found[6]] + redacted + line[at+found[7]:]
				break
			}
			at += found[5]
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}
