// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package table

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
)

func newConvertor(now time.Time) *Convertor[*corev1.Secret] {
	return NewConvertor(testingclock.NewFakePassiveClock(now),
		Column[*corev1.Secret]{Name: "Type", Description: "what it is", Cell: func(s *corev1.Secret) any { return string(s.Type) }},
		Column[*corev1.Secret]{Name: "Keys", Wide: true, Cell: func(s *corev1.Secret) any { return len(s.Data) }},
	)
}

func TestListBecomesOneRowPerItem(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	list := &corev1.SecretList{
		ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: "more", RemainingItemCount: ptr.To[int64](3)},
		Items: []corev1.Secret{
			{ObjectMeta: metav1.ObjectMeta{Name: "old", CreationTimestamp: metav1.NewTime(now.Add(-2 * time.Hour))}, Type: "a"},
			{ObjectMeta: metav1.ObjectMeta{Name: "timeless"}, Type: "b", Data: map[string][]byte{"k": nil}},
		},
	}
	table, err := newConvertor(now).ConvertToTable(context.Background(), list, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(list.ListMeta, table.ListMeta); diff != "" {
		t.Errorf("list metadata differs: %s", diff)
	}
	rows := [][]any{}
	for _, row := range table.Rows {
		rows = append(rows, row.Cells)
	}
	if diff := cmp.Diff([][]any{{"old", "a", 0, "120m"}, {"timeless", "b", 1, "<unknown>"}}, rows); diff != "" {
		t.Errorf("rows differ: %s", diff)
	}
	names, wide := []string{}, []string{}
	for _, column := range table.ColumnDefinitions {
		names = append(names, column.Name)
		if column.Priority > 0 {
			wide = append(wide, column.Name)
		}
	}
	if diff := cmp.Diff([]string{"Name", "Type", "Keys", "Age"}, names); diff != "" {
		t.Errorf("columns differ: %s", diff)
	}
	if diff := cmp.Diff([]string{"Keys"}, wide); diff != "" {
		t.Errorf("wide columns differ: %s", diff)
	}
}

func TestWatchedRowsNeedNoHeaders(t *testing.T) {
	table, err := newConvertor(time.Now()).ConvertToTable(context.Background(),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "one"}}, &metav1.TableOptions{NoHeaders: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(table.ColumnDefinitions) != 0 || len(table.Rows) != 1 {
		t.Errorf("got %d columns and %d rows, want none and one", len(table.ColumnDefinitions), len(table.Rows))
	}
}

func TestObjectOfAnotherTypeIsAnError(t *testing.T) {
	if _, err := newConvertor(time.Now()).ConvertToTable(context.Background(), &corev1.ConfigMap{}, nil); err == nil {
		t.Error("a ConfigMap was printed as a Secret")
	}
}
