// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package accept

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/printer"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/plan"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/access"
)

// askTimeout limits how long the inviting cluster is asked.
const askTimeout = 5 * time.Second

// Ask asks the inviting cluster whether it is the one of the invitation. It need not be
// reachable from here, but from this cluster: then there is a warning. The error is why the
// invitation does not lead to the cluster, although there is an answer, or that the cluster
// knows another one by the ID of this one.
func Ask(ctx context.Context, invitation plan.Invitation, own plan.Cluster) (warning string, err error) {
	config, err := access.ClientConfig(invitation.Secret.Data[clusterset.MemberSecretKubeconfig])
	if err != nil {
		return "", err
	}
	cluster.RefuseRedirects(config)
	client, err := versioned.NewForConfig(config)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	entries, err := client.ClusterSetV1alpha1().Members().List(ctx, metav1.ListOptions{})
	switch {
	case apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err):
		return "", fmt.Errorf("cluster %s rejects the token of the invitation: ask for another one (%w)", invitation.ID, printer.EscapeError(err))
	case err != nil:
		return fmt.Sprintf("whether the invitation leads to cluster %s was not checked, because it cannot be asked from here: %v", invitation.ID, err), nil
	}
	for i := range entries.Items {
		status := &entries.Items[i].Status
		if status.State != clustersetv1alpha1.MemberLocal && status.ClusterID == own.ID && status.ClusterUID != "" && status.ClusterUID != own.UID {
			return "", fmt.Errorf("cluster %s has another member with the ID %q (UID %q) than this cluster (UID %q): one of them needs another ID", invitation.ID, own.ID, status.ClusterUID, own.UID)
		}
	}
	for i := range entries.Items {
		if status := &entries.Items[i].Status; status.State == clustersetv1alpha1.MemberLocal {
			return "", compare(invitation, status)
		}
	}
	return fmt.Sprintf("whether the invitation leads to cluster %s was not checked, because the cluster at %s does not list itself", invitation.ID, invitation.Access.Server), nil
}

// compare compares an invitation with what the cluster says that it leads to.
func compare(invitation plan.Invitation, status *clustersetv1alpha1.MemberStatus) error {
	var errs []error
	for _, part := range []struct{ what, want, got string }{
		{"cluster ID", invitation.ID, status.ClusterID},
		{"ClusterSet", invitation.ClusterSet(), status.ClusterSet},
		{"cluster UID", invitation.UID(), string(status.ClusterUID)},
	} {
		if part.want != part.got {
			errs = append(errs, fmt.Errorf("the invitation leads to a cluster with the %s %q, but says %q: ask for another one", part.what, part.got, part.want))
		}
	}
	return errors.Join(errs...)
}
