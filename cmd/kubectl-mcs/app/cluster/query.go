// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	watchtools "k8s.io/client-go/tools/watch"
)

// QueryTimeout limits how long commands wait for a cluster, unless the user sets a
// timeout: an unresponsive cluster must not block the others.
const QueryTimeout = 10 * time.Second

// Query queries the clusters of several contexts, by default of the current one, in
// parallel. It returns their answers in the order of the contexts, and an error that names
// the clusters that could not be queried: their answers describe why. There are no answers
// if nothing was queried.
func Query[T any](ctx context.Context, f *Factory, contexts []string, get func(context.Context, *Cluster) (T, error), failed func(context string, err error) T) ([]T, error) {
	timeout, err := f.RequestTimeout(QueryTimeout)
	if err != nil {
		return nil, err
	}
	if len(contexts) == 0 {
		current, err := f.CurrentContext()
		if err != nil {
			return nil, err
		}
		contexts = []string{current}
	}
	answers, errs := make([]T, len(contexts)), make([]error, len(contexts))
	var group sync.WaitGroup
	for i, name := range contexts {
		c, err := f.ForContext(name)
		if err != nil {
			answers[i], errs[i] = failed(name, err), err
			continue
		}
		group.Go(func() {
			ctx, cancel := watchtools.ContextWithOptionalTimeout(ctx, timeout)
			defer cancel()
			if answers[i], errs[i] = get(ctx, c); errs[i] != nil {
				answers[i] = failed(name, Diagnose(name, errs[i], MCSUserAdvice))
			}
		})
	}
	group.Wait()
	return answers, unanswered(contexts, errs)
}

// unanswered returns an error that names the clusters that could not be queried.
func unanswered(contexts []string, errs []error) error {
	var failed []string
	for i, err := range errs {
		if err != nil {
			failed = append(failed, contexts[i])
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d clusters could not be queried: %s", len(failed), len(contexts), strings.Join(failed, ", "))
}
