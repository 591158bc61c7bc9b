// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// R656: of the account of this installation, one decision about all objects suffices; if it may
// not have all, and for anybody else, each object is decided by itself.
func TestOwnAccountIsAuthorizedForAllObjectsAtOnce(t *testing.T) {
	const own = "system:serviceaccount:mcs-system:mcs-apiserver"
	unreachable := errors.New("unreachable")
	for name, test := range map[string]struct {
		user, object string
		path         bool
		// all and one are the decisions about all objects and about a single one.
		all, one authorizer.Decision
		err      error
		asked    []string
		want     authorizer.Decision
	}{
		"all":                       {user: own, object: "web", all: authorizer.DecisionAllow, asked: []string{""}, want: authorizer.DecisionAllow},
		"one":                       {user: own, object: "web", one: authorizer.DecisionAllow, all: authorizer.DecisionNoOpinion, asked: []string{"", "shop/web"}, want: authorizer.DecisionAllow},
		"none":                      {user: own, object: "web", one: authorizer.DecisionNoOpinion, all: authorizer.DecisionNoOpinion, asked: []string{"", "shop/web"}, want: authorizer.DecisionNoOpinion},
		"no answer":                 {user: own, object: "web", one: authorizer.DecisionAllow, all: authorizer.DecisionAllow, err: unreachable, asked: []string{""}, want: authorizer.DecisionAllow},
		"a list":                    {user: own, one: authorizer.DecisionAllow, asked: []string{"shop/"}, want: authorizer.DecisionAllow},
		"no resource":               {user: own, object: "web", path: true, one: authorizer.DecisionAllow, asked: []string{"shop/web"}, want: authorizer.DecisionAllow},
		"somebody else":             {user: "jane", object: "web", all: authorizer.DecisionAllow, one: authorizer.DecisionDeny, asked: []string{"shop/web"}, want: authorizer.DecisionDeny},
		"account elsewhere":         {user: "system:serviceaccount:shop:mcs-apiserver", object: "web", all: authorizer.DecisionAllow, one: authorizer.DecisionDeny, asked: []string{"shop/web"}, want: authorizer.DecisionDeny},
		"other account of the same": {user: "system:serviceaccount:mcs-system:peer-west", object: "web", all: authorizer.DecisionAllow, one: authorizer.DecisionDeny, asked: []string{"shop/web"}, want: authorizer.DecisionDeny},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []string
			decide := authorizeOwnAccount(authorizer.AuthorizerFunc(func(_ context.Context, about authorizer.Attributes) (authorizer.Decision, string, error) {
				if about.GetVerb() != "update" || about.GetAPIGroup() != "multicluster.x-k8s.io" || about.GetAPIVersion() != "v1beta1" ||
					about.GetResource() != "serviceexports" || about.GetSubresource() != "status" || about.GetUser().GetName() != test.user {
					t.Errorf("asked about %+v", about)
				}
				if about.GetName() == "" && about.GetNamespace() == "" {
					asked = append(asked, "")
					return test.all, "all", test.err
				}
				asked = append(asked, about.GetNamespace()+"/"+about.GetName())
				return test.one, "one", nil
			}), "mcs-system")
			got, _, err := decide.Authorize(t.Context(), authorizer.AttributesRecord{
				User: &user.DefaultInfo{Name: test.user}, Verb: "update", APIGroup: "multicluster.x-k8s.io", APIVersion: "v1beta1",
				Resource: "serviceexports", Subresource: "status", Namespace: "shop", Name: test.object, ResourceRequest: !test.path,
			})
			if got != test.want || !errors.Is(err, test.err) {
				t.Errorf("got %v, %v, want %v", got, err, test.want)
			}
			if diff := cmp.Diff(test.asked, asked); diff != "" {
				t.Errorf("asked about other objects (-want +got):\n%s", diff)
			}
		})
	}
}
