// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// auditPolicy logs each request of the programs under test once.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [ResponseStarted, ResponseComplete]
rules:
- level: Metadata
  users: ["system:serviceaccount:mcs-system:mcs-apiserver"]
- level: None
`

// auditFlags writes the audit policy to a directory and returns flags of a server.
func auditFlags(dir, log string) ([]string, error) {
	policy := filepath.Join(dir, "audit-policy.yaml")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	return []string{"--audit-policy-file=" + policy, "--audit-log-path=" + log}, os.WriteFile(policy, []byte(auditPolicy), 0o644)
}

// requests returns the requests of mcs-controller since a time, from an audit log.
func requests(t *testing.T, log string, since time.Time) []auditv1.Event {
	t.Helper()
	file := expect.Must(os.Open(log))(t)
	defer file.Close()
	var found []auditv1.Event
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var event auditv1.Event
		if !strings.HasPrefix(lines.Text(), "{") || json.Unmarshal(lines.Bytes(), &event) != nil {
			continue // another line of the log
		}
		if strings.HasPrefix(event.UserAgent, "mcs-controller") && event.RequestReceivedTimestamp.After(since) {
			found = append(found, event)
		}
	}
	return found
}

// lists returns the requests that read a whole collection.
func lists(events []auditv1.Event) []string {
	var found []string
	for _, event := range events {
		if event.Verb == "list" || strings.Contains(event.RequestURI, "sendInitialEvents=true") {
			found = append(found, event.RequestURI)
		}
	}
	return found
}
