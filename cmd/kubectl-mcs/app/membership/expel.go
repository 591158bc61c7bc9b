// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/export"
)

// decisionsInterval is how often the decisions in a cluster are read.
const decisionsInterval = 500 * time.Millisecond

// expelMember marks a member as expelled. It is removed later.
func (c *Cluster) expelMember(ctx context.Context, id string) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"true"}}}`, clusterset.ExpelledAnnotation)
	for _, name := range c.memberSecrets[id] {
		_, err := c.Kubernetes.CoreV1().Secrets(c.Namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// waitForDecisions waits until no ServiceExport of this cluster has a decision of an
// expelled cluster, or one that was adopted from it. The timeout counts from since; the
// cluster is asked at least once.
func (c *Cluster) waitForDecisions(ctx context.Context, id string, since time.Time, timeout time.Duration) error {
	var remaining []string
	err := wait.PollUntilContextTimeout(ctx, decisionsInterval, timeout-time.Since(since), true, func(context.Context) (bool, error) { // what was begun is completed
		exports, err := c.MCS.MulticlusterXV1beta1().ServiceExports(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		remaining = nil
		for i := range exports.Items {
			if export.DependsOn(&exports.Items[i], id) {
				remaining = append(remaining, exports.Items[i].Namespace+"/"+exports.Items[i].Name)
			}
		}
		return len(remaining) == 0, nil
	})
	if wait.Interrupted(err) && len(remaining) > 0 && ctx.Err() == nil {
		return fmt.Errorf("after %s, %d ServiceExports still have a shared ClusterSet IP decided by or adopted from %q, the first is %s: check that mcs-controller is running", timeout, len(remaining), id, remaining[0])
	}
	return err
}
