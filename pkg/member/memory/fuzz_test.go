// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"bytes"
	"compress/gzip"
	"testing"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/validation"
)

// FuzzDocuments decodes arbitrary records of members.
//
// R367: what can be decoded, and would be admitted, is the same after it was recorded again.
func FuzzDocuments(f *testing.F) {
	f.Add([]byte(`{"uid":"uid-b","secret":"b","cidrs":["243.1.0.0/16"],"chunks":["0"],"relayed":[{"metadata":{"name":"c"},"status":{"clusterID":"c","path":["c"]}}]}`), true, "contact.b")
	f.Add([]byte(`{"uid":"uid-b","services":[{"metadata":{"name":"web.b","namespace":"ns","labels":{"multicluster.kubernetes.io/source-cluster":"b","multicluster.kubernetes.io/service-name":"web"}},"spec":{"cluster":"b","service":"web","exportedAt":"2026-01-01T00:00:00Z","type":"Headless"}}]}`), true, "services-0.b")
	f.Add([]byte("\x1f\x8b"), false, "services.")
	f.Fuzz(func(t *testing.T, data []byte, compress bool, name string) {
		if parsed, ok := parseName(name); ok && parsed.String() != name {
			t.Fatalf("%q is the name of %q", name, parsed)
		}
		if compress {
			var buffer bytes.Buffer
			writer := gzip.NewWriter(&buffer)
			_, _ = writer.Write(data)
			_ = writer.Close()
			data = buffer.Bytes()
		}
		if contact, err := decodeContact(data); err == nil && validation.IsEncodable(metav1.NewTime(contact.ClaimedAt)) {
			encoded, err := encodeContact(contact)
			if err != nil {
				t.Fatalf("%+v cannot be recorded: %v", contact, err)
			}
			if again, err := decodeContact(encoded); err != nil || !again.equal(contact.Contact) || again.uid != contact.uid {
				t.Fatalf("recorded %+v, decoded %+v: %v", contact, again, err)
			}
		}
		if uid, objects, err := decodeServices(data); err == nil && len(objects) > 0 {
			var services []*clusterset.ExportedService
			for _, object := range objects {
				service := object.Object.(*clusterset.ExportedService)
				if len(validation.ValidateExportedService(service)) > 0 {
					return
				}
				services = append(services, service)
			}
			encoded, err := encodeServices(uid, services)
			if err != nil {
				t.Fatal(err)
			}
			if againUID, again, err := decodeServices(encoded); err != nil || againUID != uid || !apiequality.Semantic.DeepEqual(objects, again) {
				t.Fatalf("recorded %+v, decoded %+v: %v", objects, again, err)
			}
		}
	})
}
