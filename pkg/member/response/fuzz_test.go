// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package response

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

// FuzzMembers decodes the members lists of hostile members.
//
// R280, R366: nothing of an entry exceeds its limit, and what is taken can be relayed: it
// is the same after it was encoded and decoded.
func FuzzMembers(f *testing.F) {
	for _, items := range [][]clustersetv1alpha1.Member{
		{filled("b", clustersetv1alpha1.MemberLocal), filled("c", "Connected")},
		{filled(strings.Repeat("x", maxText+1), "Lost")},
	} {
		data, err := json.Marshal(clustersetv1alpha1.MemberList{Items: items})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, uint16(1))
	}
	f.Fuzz(func(t *testing.T, data []byte, repeat uint16) {
		var list clustersetv1alpha1.MemberList
		if json.Unmarshal(data, &list) != nil {
			return
		}
		enlarge(&list, int(repeat))
		entries, err := Members(&list)
		if err != nil {
			return
		}
		if len(entries.Members) > MaxClusters+1 || len([]rune(entries.First)) > maxMessage || entries.Refused > len(list.Items) {
			t.Fatalf("%d entries, %d refused, first %q", len(entries.Members), entries.Refused, entries.First)
		}
		for name, entry := range entries.Members {
			if name != entry.Name {
				t.Fatalf("entry %q has the name %q", name, entry.Name)
			}
			expectLimited(t, name, reflect.ValueOf(entry).Elem())
			expectRelayable(t, entry)
		}
	})
}

// enlarge makes lists and texts longer than an input can be.
func enlarge(list *clustersetv1alpha1.MemberList, times int) {
	times %= 2 * MaxClusters
	for i := range list.Items {
		status := &list.Items[i].Status
		for _, texts := range []*[]string{&status.Peers, &status.Path, &status.ClusterSetIPCIDRs, &status.ClusterSetIPRanges} {
			if len(*texts) == 1 {
				for range times {
					*texts = append(*texts, (*texts)[0])
				}
			}
		}
		if len(status.ClusterSet) == 1 {
			status.ClusterSet = strings.Repeat(status.ClusterSet, 1+times)
		}
		for j := range status.Conditions {
			status.Conditions[j].Message = strings.Repeat(status.Conditions[j].Message, 1+times)
		}
	}
}

// expectLimited checks all texts and lists of a value.
func expectLimited(t *testing.T, at string, value reflect.Value) {
	t.Helper()
	switch value.Kind() {
	case reflect.String:
		limit := maxText
		if strings.HasSuffix(at, ".Message") {
			limit = 4 * maxMessage // characters
		}
		if value.Len() > limit {
			t.Fatalf("%s has %d bytes", at, value.Len())
		}
	case reflect.Slice:
		if limit := MaxClusters; value.Len() > limit || !strings.HasSuffix(at, ".Peers") && value.Len() > MaxCIDRs {
			t.Fatalf("%s has %d items", at, value.Len())
		}
		for i := range value.Len() {
			expectLimited(t, at, value.Index(i))
		}
	case reflect.Map:
		if value.Len() > 0 {
			t.Fatalf("%s has %d entries", at, value.Len())
		}
	case reflect.Struct:
		for i := range value.NumField() {
			if field := value.Type().Field(i); field.IsExported() {
				expectLimited(t, at+"."+field.Name, value.Field(i))
			}
		}
	}
}

// expectRelayable checks that another cluster reads the same.
func expectRelayable(t *testing.T, entry *clusterset.Member) {
	t.Helper()
	var relayed, read clustersetv1alpha1.Member
	if err := clustersetv1alpha1.Convert_clusterset_Member_To_v1alpha1_Member(entry, &relayed, nil); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(&relayed)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &read); err != nil {
		t.Fatalf("%s cannot be decoded: %v", data, err)
	}
	if !apiequality.Semantic.DeepEqual(relayed, read) {
		t.Fatalf("encoded\n%+v\ndecoded\n%+v", relayed, read)
	}
}
