// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/versioning"
)

// GroupVersion is the version in which records are stored. The API does not
// serve it.
var GroupVersion = schema.GroupVersion{Group: "storage.mcs-apiserver.io", Version: "v1"}

// Record is a stored document.
//
// +k8s:deepcopy-gen=true
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type Record struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Data              []byte `json:"data"`
}

// RecordList is a list of stored documents.
//
// +k8s:deepcopy-gen=true
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type RecordList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Record `json:"items"`
}

// newCodec returns the codec of records, which are stored as JSON.
func newCodec() runtime.Codec {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(GroupVersion, &Record{}, &RecordList{})
	serializer := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{})
	return versioning.NewDefaultingCodecForScheme(scheme, serializer, serializer, GroupVersion, GroupVersion)
}
