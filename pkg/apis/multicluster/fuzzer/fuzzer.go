// Package fuzzer fills the API types with random but decodable values.
package fuzzer

import (
	runtimeserializer "k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/randfill"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

// Funcs are the custom fuzzers of this API group, beyond what the meta types need.
func Funcs(runtimeserializer.CodecFactory) []any {
	return []any{
		func(spec *multicluster.ServiceImportSpec, c randfill.Continue) {
			c.FillNoCustom(spec)
			// On the wire ports are always there, so nil and empty read the same.
			if spec.Ports == nil {
				spec.Ports = []multicluster.ServicePort{}
			}
		},
	}
}
