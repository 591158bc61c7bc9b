// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

// FuzzValidate looks for exports of a member that make validation panic, or that
// are accepted although they could replace an object of another cluster, or could not be read.
func FuzzValidate(f *testing.F) {
	add := func(object any) {
		data, err := json.Marshal(object)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	add(validService())
	add(validSlice())
	slice, err := json.Marshal(validSlice())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(bytes.Replace(slice, []byte(`"ChangedAt":null`), []byte(`"ChangedAt":"9999-12-31T23:59:59.000000-01:00"`), 1))
	add(clusterset.ExportedService{Spec: clusterset.ExportedServiceSpec{Cluster: strings.Repeat("c", 250), Service: "web"}})
	f.Fuzz(func(t *testing.T, data []byte) {
		var service clusterset.ExportedService
		if json.Unmarshal(data, &service) == nil && len(ValidateExportedService(&service)) == 0 {
			expectUsable(t, service.Namespace, service.Name, service.Spec.Cluster)
		}
		var slice clusterset.ExportedEndpointSlice
		if json.Unmarshal(data, &slice) == nil && len(ValidateExportedEndpointSlice(&slice)) == 0 {
			expectUsable(t, slice.Namespace, slice.Name, slice.Spec.Cluster)
			again, err := json.Marshal(slice)
			if err == nil {
				err = json.Unmarshal(again, &slice)
			}
			if err != nil {
				t.Errorf("a slice that is accepted cannot be passed on: %v", err)
			}
		}
	})
}

func expectUsable(t *testing.T, namespace, name, cluster string) {
	t.Helper()
	if len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 || name[strings.LastIndex(name, ".")+1:] != cluster {
		t.Errorf("%q in namespace %q is accepted from cluster %q", name, namespace, cluster)
	}
}
