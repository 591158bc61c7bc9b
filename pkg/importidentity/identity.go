// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package importidentity

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Scope is what the imports of a namespace have in common while this cluster is
// in a ClusterSet.
type Scope struct {
	// NamespaceUID is the UID of the namespace, MembershipUID that of the
	// ClusterClaim clusterset.k8s.io. A namespace that is created again has another
	// UID, and so has the claim of a cluster that joins again.
	NamespaceUID, MembershipUID types.UID
	// Since is when the later of the two was created.
	Since time.Time
}

// Life is one of the consecutive lives of the imports of one name.
type Life struct {
	// Number counts the lives that are over.
	Number int64
	// Since is when the previous life ended, in seconds since 1970. It is 0 if there
	// was none.
	Since int64
}

// laterLife returns the later of two lives.
func laterLife(a, b Life) Life {
	if b.Number > a.Number || b.Number == a.Number && b.Since > a.Since {
		return b
	}
	return a
}

// Identity is the part of an import that distinguishes it from other imports of
// the same name.
type Identity struct {
	UID     types.UID
	Created metav1.Time
	// Life is the number of the life.
	Life  int64
	Scope Scope
}

// space is the namespace of the UUIDs of imports. It must not change: all imports
// would change with it.
var space = uuid.MustParse("6f0d6f4e-5c55-4b0a-9d3c-0f1f3f0f7a5e")

// Identity returns the identity of an import in one of its lives.
func (s Scope) Identity(name string, life Life) Identity {
	created := s.Since
	if since := time.Unix(life.Since, 0); life.Since != 0 && since.After(created) {
		created = since
	}
	// None of the parts contains a NUL.
	parts := []string{string(s.NamespaceUID), name, string(s.MembershipUID), strconv.FormatInt(life.Number, 10)}
	return Identity{
		UID:     types.UID(uuid.NewSHA1(space, []byte(strings.Join(parts, "\x00"))).String()),
		Created: metav1.NewTime(created).Rfc3339Copy(),
		Life:    life.Number,
		Scope:   s,
	}
}

// Mark returns the text that marks derived Services with the life of their import:
// its number and the UID of its namespace. It is empty in the first life.
func (i Identity) Mark() string {
	if i.Life == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%s", i.Life, i.Scope.NamespaceUID)
}

// Marked returns the life that a derived Service is marked with, or the first one
// if it is not marked. The mark of a Service in an earlier namespace of the same
// name, which may still be in a cache, does not count.
func Marked(mark string, namespace types.UID) int64 {
	number, uid, _ := strings.Cut(mark, "/")
	life, err := strconv.ParseInt(number, 10, 64)
	if err != nil || types.UID(uid) != namespace {
		return 0
	}
	return life
}

// sameScope reports whether two identities differ in the number of the life only.
func (i Identity) sameScope(other Identity) bool {
	return i.Scope.NamespaceUID == other.Scope.NamespaceUID && i.Scope.MembershipUID == other.Scope.MembershipUID
}
