// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package imports

import (
	"fmt"
	"iter"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/hostile"
)

// fakeMember joins a member with a given behavior, with the ID fake.
func fakeMember(t *testing.T, in *fleet.Cluster, behavior hostile.Behavior) {
	t.Helper()
	member := expect.Must(hostile.Start(hostile.Config{ID: "fake", ClusterSet: "everywhere", Behavior: behavior}))(t)
	t.Cleanup(member.Close)
	secret(t, in, "member-fake", expect.Must(member.Secret(nil))(t))
}

// exporting returns the behavior of a member that exports Services in JSON, valid or not.
func exporting(services iter.Seq[string]) hostile.Behavior {
	return hostile.Behavior{hostile.Services: {Objects: services}}
}

// exportedService returns an ExportedService in JSON. Its name and additional spec
// fields may be invalid.
func exportedService(ns, name, cluster, service, more string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q,"namespace":%q,"uid":"u-%s","resourceVersion":"7","labels":{"multicluster.kubernetes.io/source-cluster":%q,"multicluster.kubernetes.io/service-name":%q}},`+
		`"spec":{"cluster":%q,"service":%q,"exportedAt":"2020-01-01T00:00:00Z","type":"ClusterSetIP"%s}}`, name, ns, name, cluster, service, cluster, service, more)
}
