// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
)

// retryOnConflict repeats a change that somebody else prevented by another one.
func retryOnConflict(ctx context.Context, change func(context.Context) error) error {
	return retry.OnError(retry.DefaultBackoff, func(err error) bool { return apierrors.IsConflict(err) && ctx.Err() == nil }, func() error { return change(ctx) })
}

// specsEqual reports whether a change left the spec as it was.
func specsEqual(before, after *unstructured.Unstructured) bool {
	return apiequality.Semantic.DeepEqual(before.Object["spec"], after.Object["spec"])
}
