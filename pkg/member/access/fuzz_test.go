// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
)

// FuzzResponse reads arbitrary responses.
//
// R200, R366: a response is passed on unchanged, or ends with an error; what is passed on does
// not take much more memory than the limit when it is decoded. It does not matter in which
// parts the response arrives.
func FuzzResponse(f *testing.F) {
	for _, text := range []string{
		`{"items":[{"metadata":{"name":"a"}},{},null,{}]}`, `{"type":"ADDED","object":{"spec":{"endpoints":[{},{},{}]}}}` + "\n" + `{}`,
		`}}]][{}]`, `[[[[[[`, `"\"`, `{"items":[{"spec":{"ports":[{},{},{},{},{},{},{},{}]}}]}`,
	} {
		f.Add([]byte(text), uint16(100), false)
		f.Add([]byte(text), uint16(100), true)
	}
	f.Fuzz(func(t *testing.T, data []byte, limit uint16, watch bool) {
		read := func(from io.Reader) ([]byte, error) {
			return io.ReadAll(&boundedBody{ReadCloser: io.NopCloser(from), limit: int64(limit), watch: watch})
		}
		whole, err := read(bytes.NewReader(data))
		parts, partsErr := read(iotest.OneByteReader(bytes.NewReader(data)))
		if (err == nil) != (partsErr == nil) || err == nil && !bytes.Equal(whole, parts) {
			t.Fatalf("%v at once, %v in parts", err, partsErr)
		}
		var tooLarge TooLargeError
		switch {
		case err != nil && (!errors.As(err, &tooLarge) || tooLarge.Watch != watch):
			t.Fatal(err)
		case err != nil:
			return
		case !bytes.Equal(whole, data):
			t.Fatalf("passed on %q of %q", whole, data)
		case !watch && len(data) > int(limit):
			t.Fatalf("passed on %d bytes, limit %d", len(data), limit)
		}
		for _, into := range []any{&clustersetv1alpha1.ExportedServiceList{}, &clustersetv1alpha1.ExportedEndpointSliceList{}, &clustersetv1alpha1.MemberList{}} {
			if json.Unmarshal(whole, into) != nil {
				continue
			}
			// Slices grow to twice of what they hold, and the value itself does not count.
			if taken := exports.Footprint(into); taken > 3*int64(limit)+1024 {
				t.Fatalf("%q takes %d bytes, limit %d", whole, taken, limit)
			}
		}
	})
}
