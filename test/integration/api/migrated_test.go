// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// R470, R471: objects take the UID and the age of the annotation migrated-from, if their
// creator holds the verb migrate.
func TestObjectsTakeTheIdentityThatTheyHad(t *testing.T) {
	ns := namespace(t)
	for _, role := range []string{"view", "edit"} {
		kubectl(t, "create", "rolebinding", role, "-n", ns, "--clusterrole=mcs-apiserver:"+role, "--user=editor")
	}
	for resource, manifest := range map[string]string{
		"serviceexport": "apiVersion: multicluster.x-k8s.io/v1beta1\nkind: ServiceExport\n",
		"clusterprofile": "apiVersion: multicluster.x-k8s.io/v1alpha1\nkind: ClusterProfile\n" +
			"spec: {clusterManager: {name: example}}\n",
		"placementdecision": "apiVersion: multicluster.x-k8s.io/v1alpha1\nkind: PlacementDecision\ndecisions: []\n",
	} {
		t.Run(resource, func(t *testing.T) {
			const uid, at = "0a1b2c3d-0000-4000-8000-0123456789ab", "2020-01-02T03:04:05Z"
			with := func(name, value string) string {
				return expect.Manifest(t, "%smetadata: {name: %s, namespace: %s, annotations: {clusterset.mcs-apiserver.io/migrated-from: '%s'}}\n", manifest, name, ns, value)
			}
			identity := fmt.Sprintf(`{"uid":%q,"creationTimestamp":%q}`, uid, at)
			const editor = "editor"
			expect.Eventually(t, "refusal", func(context.Context) error { // permissions take a moment
				if output := kubectlFails(t, "create", "-f", with("web", identity), "--as="+editor); !strings.Contains(output, "is not allowed to set the annotation") ||
					!strings.Contains(output, `grant the verb "migrate" on resource "`+resource+"s") {
					return errors.New(output)
				}
				return nil
			})
			expect.Contains(t, kubectlFails(t, "create", "-f", with("web", `{"creationTimestamp":"2999-01-02T03:04:05Z"}`)), "must not be in the future")

			kubectl(t, "create", "-f", with("web", identity))
			show := func() string {
				return kubectl(t, "get", resource, "web", "-n", ns, "-o", `jsonpath={.metadata.uid} {.metadata.creationTimestamp} {.metadata.annotations.clusterset\.mcs-apiserver\.io/migrated-from}`)
			}
			want := uid + " " + at + " " + identity
			if got := show(); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			kubectl(t, "annotate", resource, "web", "-n", ns, "clusterset.mcs-apiserver.io/migrated-from-", "other=yes", "--as="+editor)
			if got := show(); got != want {
				t.Errorf("after the annotation was removed: %s, want %s", got, want)
			}
			expect.Contains(t, kubectlFails(t, "annotate", resource, "web", "-n", ns, "--overwrite", "clusterset.mcs-apiserver.io/migrated-from="+strings.Replace(identity, "2020", "2019", 1), "--as="+editor),
				"is not allowed to set the annotation")
		})
	}
}
