// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package exports

import (
	"reflect"
	"time"
)

// mapEntryOverhead is what a map needs besides the keys and values of its entries.
const mapEntryOverhead = 16

var timeType = reflect.TypeFor[time.Time]()

// Footprint estimates how much memory a value takes that a pointer leads to. It
// follows all fields, so that none that is added to an API type is forgotten.
func Footprint(pointer any) int64 {
	value := reflect.ValueOf(pointer)
	if value.Kind() != reflect.Pointer || value.IsNil() {
		return 0
	}
	return int64(value.Elem().Type().Size()) + referenced(value.Elem()) //nolint:gosec // the size of a type
}

// referenced returns how much memory the parts of a value take that are not in
// the value itself.
func referenced(value reflect.Value) (bytes int64) {
	switch value.Kind() {
	case reflect.String:
		return int64(value.Len())
	case reflect.Pointer, reflect.Interface:
		if value.IsNil() {
			return 0
		}
		return int64(value.Elem().Type().Size()) + referenced(value.Elem()) //nolint:gosec // the size of a type
	case reflect.Slice:
		bytes = int64(value.Cap()) * int64(value.Type().Elem().Size()) //nolint:gosec // the size of a type
		for i := range value.Len() {
			bytes += referenced(value.Index(i))
		}
	case reflect.Map:
		entry := int64(value.Type().Key().Size()+value.Type().Elem().Size()) + mapEntryOverhead //nolint:gosec // the size of a type
		for entries := value.MapRange(); entries.Next(); {
			bytes += entry + referenced(entries.Key()) + referenced(entries.Value())
		}
	case reflect.Struct:
		if value.Type() == timeType { // refers to a time zone that all times share
			return 0
		}
		for i := range value.NumField() {
			bytes += referenced(value.Field(i))
		}
	}
	return bytes
}
