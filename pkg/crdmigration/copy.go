// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package crdmigration

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/inventory"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

// ReturnedFromAnnotation is, on the object of a CRD, the UID of the object of mcs-apiserver
// that it was made of: both are the same when the CRDs are migrated again.
const ReturnedFromAnnotation = multicluster.ClusterSetKeyPrefix + "returned-from"

// ownAnnotations are not part of an object, but about one of its copies.
var ownAnnotations = []string{
	multicluster.MigratedFromAnnotation, multicluster.MigratedAtAnnotation, multicluster.OriginAnnotation,
	multicluster.ClusterSetIPDecisionAnnotation, ReturnedFromAnnotation,
}

// content returns all of an object that its copy has as well: neither its identity, nor
// fields that mcs-apiserver does not know.
func (r Resource) content(object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	known := r.typed()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, known); err != nil {
		return nil, fmt.Errorf("not a valid %s: %w", r.Kind, err)
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(known)
	if err != nil {
		return nil, fmt.Errorf("not a valid %s: %w", r.Kind, err)
	}
	delete(fields, "metadata")
	if !r.Status {
		delete(fields, "status")
	}
	content := &unstructured.Unstructured{Object: fields}
	content.SetAPIVersion(object.GetAPIVersion())
	content.SetKind(r.Kind)
	content.SetNamespace(object.GetNamespace())
	content.SetName(object.GetName())
	if labels := object.GetLabels(); len(labels) > 0 {
		content.SetLabels(labels)
	}
	annotations := object.GetAnnotations()
	for _, key := range ownAnnotations {
		delete(annotations, key)
	}
	if len(annotations) > 0 {
		content.SetAnnotations(annotations)
	}
	if owners := object.GetOwnerReferences(); len(owners) > 0 {
		content.SetOwnerReferences(owners)
	}
	if finalizers := object.GetFinalizers(); r.Finalizers && len(finalizers) > 0 {
		content.SetFinalizers(finalizers)
	}
	return content, nil
}

// Copy returns the object of mcs-apiserver that the object of a CRD becomes, with its
// identity.
func (r Resource) Copy(custom *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	object, err := r.content(custom)
	if err != nil {
		return nil, err
	}
	annotate(object, multicluster.MigratedFromAnnotation, multicluster.MigratedFrom{UID: custom.GetUID(), CreationTimestamp: custom.GetCreationTimestamp()}.String())
	return object, nil
}

// Return returns the object of a CRD that an object of mcs-apiserver becomes, in a version.
func (r Resource) Return(own *unstructured.Unstructured, version string) (*unstructured.Unstructured, error) {
	object, err := r.content(own)
	if err != nil {
		return nil, err
	}
	object.SetAPIVersion(multicluster.XGroupName + "/" + version)
	annotate(object, ReturnedFromAnnotation, string(own.GetUID()))
	return object, nil
}

func annotate(object *unstructured.Unstructured, key, value string) {
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	object.SetAnnotations(annotations)
}

// Same reports whether two objects have the same content, in any version.
func (r Resource) Same(a, b *unstructured.Unstructured) bool {
	var contents [2]map[string]any
	for i, object := range []*unstructured.Unstructured{a, b} {
		content, err := r.content(object)
		if err != nil {
			return false
		}
		contents[i] = comparableFields(content)
		delete(contents[i], "status")
	}
	return apiequality.Semantic.DeepEqual(contents[0], contents[1])
}

// SameStatus reports whether two objects have the same status, or the status is not copied.
func (r Resource) SameStatus(a, b *unstructured.Unstructured) bool {
	if !r.Status {
		return true
	}
	var statuses [2]any
	for i, object := range []*unstructured.Unstructured{a, b} {
		content, err := r.content(object)
		if err != nil {
			return false
		}
		statuses[i] = comparableFields(content)["status"]
	}
	return apiequality.Semantic.DeepEqual(statuses[0], statuses[1])
}

// comparableFields returns the fields of an object without those that are empty, and those that
// mcs-apiserver adds.
func comparableFields(object *unstructured.Unstructured) map[string]any {
	delete(object.Object, "apiVersion")
	labels := object.GetLabels()
	if manager, _, _ := unstructured.NestedString(object.Object, "spec", "clusterManager", "name"); manager != "" && labels[inventory.ClusterManagerLabel] == manager {
		delete(labels, inventory.ClusterManagerLabel)
		object.SetLabels(labels)
	}
	fields, _ := withoutEmpty(object.Object).(map[string]any)
	return fields
}

// withoutEmpty returns a value of JSON without empty maps, lists and null, at any depth of
// maps. It is nil if nothing is left.
func withoutEmpty(value any) any {
	switch value := value.(type) {
	case map[string]any:
		left := map[string]any{}
		for key, field := range value {
			if field = withoutEmpty(field); field != nil {
				left[key] = field
			}
		}
		if len(left) == 0 {
			return nil
		}
		return left
	case []any:
		if len(value) == 0 {
			return nil
		}
	}
	return value
}

// Digest returns a digest of the objects of a CRD, which is the same for the same identities
// and contents in any order: two programs that read the same objects agree on it.
func (r Resource) Digest(objects []*unstructured.Unstructured) (string, error) {
	lines := make([]string, 0, len(objects))
	for _, object := range objects {
		key, fields := object.GetNamespace()+"/"+object.GetName(), any(nil)
		if content, err := r.content(object); err == nil {
			fields = content.Object
		}
		line, err := json.Marshal([]any{key, object.GetUID(), object.GetDeletionTimestamp() != nil, fields})
		if err != nil {
			return "", fmt.Errorf("encode %s %s: %w", r.Kind, key, err)
		}
		lines = append(lines, string(line))
	}
	slices.Sort(lines)
	hash := sha256.New()
	for _, line := range lines {
		hash.Write([]byte(line + "\n"))
	}
	return hex.EncodeToString(hash.Sum(nil))[:32], nil
}

// migratedFrom returns the UID of the object of a CRD that an object was copied from, empty
// if it was not.
func migratedFrom(own *unstructured.Unstructured) types.UID {
	var from multicluster.MigratedFrom
	if err := json.Unmarshal([]byte(own.GetAnnotations()[multicluster.MigratedFromAnnotation]), &from); err != nil {
		return ""
	}
	return from.UID
}
