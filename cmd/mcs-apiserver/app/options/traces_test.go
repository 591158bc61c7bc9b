// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/tracing"
)

// The file of docs/operations.md is one that the flag accepts.
func TestDocumentedTracesAreSent(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Traces\n")
	_, after, _ := strings.Cut(section, "```yaml\n")
	example, _, _ := strings.Cut(after, "```")
	file := filepath.Join(t.TempDir(), "traces.yaml")
	if err := os.WriteFile(file, []byte(example), 0o600); err != nil {
		t.Fatal(err)
	}
	opts := New()
	flags := opts.Flags()
	if err := flags.FlagSet("traces").Parse([]string{"--tracing-config-file=" + file}); err != nil {
		t.Fatal(err)
	}
	config := &genericapiserver.Config{TracerProvider: tracing.NewNoopTracerProvider()}
	if err := opts.Recommended.Traces.ApplyTo(nil, config); err != nil {
		t.Fatal(err)
	}
	defer config.TracerProvider.Shutdown(t.Context()) //nolint:errcheck // nothing listens there
	_, span := config.TracerProvider.Tracer("test").Start(t.Context(), "request")
	if !span.SpanContext().IsValid() {
		t.Error("requests have no spans")
	}
}
