// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package table converts objects to the tables that `kubectl get` prints.
package table

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/truncate"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/virtual/encoded"
)

// Column is one column of a table.
type Column[T runtime.Object] struct {
	Name        string
	Description string
	// Wide columns are printed by `kubectl get -o wide` only.
	Wide bool
	Cell func(T) any
}

// Convertor converts objects of type T to a table with one row per object: the
// name, the columns and the age.
type Convertor[T runtime.Object] struct {
	columns     []Column[T]
	definitions []metav1.TableColumnDefinition
	clock       clock.PassiveClock
}

var _ rest.TableConvertor = &Convertor[runtime.Object]{}

// NewConvertor returns a Convertor that computes ages with the clock.
func NewConvertor[T runtime.Object](clock clock.PassiveClock, columns ...Column[T]) *Convertor[T] {
	documentation := metav1.ObjectMeta{}.SwaggerDoc()
	definitions := []metav1.TableColumnDefinition{{Name: "Name", Type: "string", Format: "name", Description: documentation["name"]}}
	for _, column := range columns {
		definition := metav1.TableColumnDefinition{Name: column.Name, Type: "string", Description: column.Description}
		if column.Wide {
			definition.Priority = 1
		}
		definitions = append(definitions, definition)
	}
	definitions = append(definitions, metav1.TableColumnDefinition{Name: "Age", Type: "string", Description: documentation["creationTimestamp"]})
	return &Convertor[T]{columns: columns, definitions: definitions, clock: clock}
}

// RenameFirst sets the title of the name column.
func (c *Convertor[T]) RenameFirst(title string) { c.definitions[0].Name = title }

// maxCell is the maximum number of characters in a cell for a long value.
const maxCell = 64

// Truncate shortens a long value to the size of a cell.
func Truncate(value string) string { return truncate.Characters(value, maxCell) }

// ConvertToTable implements rest.TableConvertor for an object and for a list.
func (c *Convertor[T]) ConvertToTable(_ context.Context, object, options runtime.Object) (*metav1.Table, error) {
	table := &metav1.Table{}
	if o, ok := options.(*metav1.TableOptions); !ok || !o.NoHeaders {
		table.ColumnDefinitions = c.definitions
	}
	if !meta.IsListType(object) {
		return table, c.addRow(table, object)
	}
	list, err := meta.ListAccessor(object)
	if err != nil {
		return nil, err
	}
	table.ResourceVersion = list.GetResourceVersion()
	table.Continue = list.GetContinue()
	table.RemainingItemCount = list.GetRemainingItemCount()
	return table, meta.EachListItem(object, func(item runtime.Object) error { return c.addRow(table, item) })
}

func (c *Convertor[T]) addRow(table *metav1.Table, object runtime.Object) error {
	object = encoded.Unwrap(object)
	item, ok := object.(T)
	if !ok {
		return fmt.Errorf("unexpected type %[2]T in a table of %[1]T", item, object)
	}
	metadata, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	cells := []any{metadata.GetName()}
	for _, column := range c.columns {
		cells = append(cells, column.Cell(item))
	}
	cells = append(cells, c.age(metadata.GetCreationTimestamp().Time))
	table.Rows = append(table.Rows, metav1.TableRow{Cells: cells, Object: runtime.RawExtension{Object: object}})
	return nil
}

func (c *Convertor[T]) age(created time.Time) string {
	if created.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(c.clock.Since(created))
}
