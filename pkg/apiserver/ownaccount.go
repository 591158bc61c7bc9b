// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// accountName is the name of the service account of this installation, which mcs-controller shares.
const accountName = "mcs-apiserver"

// authorizeOwnAccount returns an authorizer that asks whether the account of this installation may do
// something with all objects of a resource before it asks for a single one. Decisions are
// those of the cluster, which remembers them per object: mcs-controller writes the status of
// each ServiceExport, and would wait for another decision each time.
//
// Others are asked for as they come. Their requests pass the kube-apiserver, which may have
// authorizers that refuse certain objects to somebody who may otherwise do it with all.
func authorizeOwnAccount(next authorizer.Authorizer, namespace string) authorizer.Authorizer {
	own := serviceaccount.MakeUsername(namespace, accountName)
	return authorizer.AuthorizerFunc(func(ctx context.Context, asked authorizer.Attributes) (authorizer.Decision, string, error) {
		requester := asked.GetUser()
		if requester == nil || requester.GetName() != own || !asked.IsResourceRequest() || asked.GetName() == "" {
			return next.Authorize(ctx, asked)
		}
		decision, reason, err := next.Authorize(ctx, authorizer.AttributesRecord{
			User: requester, Verb: asked.GetVerb(), ResourceRequest: true,
			APIGroup: asked.GetAPIGroup(), APIVersion: asked.GetAPIVersion(), Resource: asked.GetResource(), Subresource: asked.GetSubresource(),
		})
		if err != nil || decision == authorizer.DecisionAllow {
			return decision, reason, err
		}
		return next.Authorize(ctx, asked)
	})
}
