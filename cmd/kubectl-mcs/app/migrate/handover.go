// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/retry"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apiconflict"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/crdmigration"
)

const (
	// handOverTimeout is how long mcs-controller may take to register a group-version.
	handOverTimeout = time.Minute
	// watchTimeout is how long the kube-apiserver may take to end watches of a CRD that was
	// changed: it waits for all other requests, for two minutes at most.
	watchTimeout = 150 * time.Second
	// movedCategory is added to CRDs, or removed, to end watches of their objects. It has no
	// effect, because mcs-apiserver serves the resource.
	movedCategory = "migrated"
	writers       = 10
	// watchMargin is for other kube-apiservers to notice that CRDs changed, and to end their
	// watches, which takes at least a second.
	watchMargin = 3 * time.Second
	// touchTimeout is how long changes may be refused by a replica after they are allowed by
	// another.
	touchTimeout = 15 * time.Second
)

// handOver lets mcs-controller take over the group-versions of CRDs. They are served at every
// moment: by the kube-apiserver, until the APIServices refer to mcs-apiserver.
func (s *site) handOver(ctx context.Context) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{apiconflict.AutomanagedLabel: nil}}})
	if err != nil {
		return err
	}
	moving := slices.Clone(s.held)
	for _, gv := range moving {
		if _, err := s.aggregator.ApiregistrationV1().APIServices().Patch(ctx, apiconflict.APIServiceName(gv), types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return s.WrapError(err, advice)
		}
	}
	err = s.await(ctx, handOverTimeout, "mcs-controller has not registered "+names(moving), func(ctx context.Context) error {
		if err := s.observeAPIServices(ctx); err != nil {
			return err
		}
		for _, gv := range moving {
			item, err := s.apiService(ctx, gv)
			switch {
			case err != nil:
				return err
			case item.Spec.Service == nil:
				return fmt.Errorf("the kube-apiserver still serves %s", gv)
			}
			if err := available(item); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return sleep(ctx, freezeMargin) // other kube-apiservers may still write objects of CRDs
}

// keepCRDs undoes a hand-over that mcs-controller has not carried out, also if the command was
// interrupted. Otherwise, mcs-controller would carry it out at any later time, while objects of
// the CRDs are changed.
func (s *site) keepCRDs(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	for _, gv := range crdmigration.GroupVersions {
		err := retryOnConflict(ctx, func(ctx context.Context) error {
			item, err := s.apiService(ctx, gv)
			if err != nil || !abandoned(item) {
				return ignoreNotFound(err)
			}
			item.Labels[apiconflict.AutomanagedLabel] = "true"
			_, err = s.aggregator.ApiregistrationV1().APIServices().Update(ctx, item, metav1.UpdateOptions{})
			return err
		})
		if err != nil {
			return fmt.Errorf("%w\nrun `kubectl --context %s label apiservice %s %s=true`, or mcs-controller registers it later, without the changes until then",
				s.WrapError(err, advice), s.Context, apiconflict.APIServiceName(gv), apiconflict.AutomanagedLabel)
		}
	}
	return nil
}

// abandoned reports whether the kube-apiserver serves a group-version that mcs-controller may
// take over at any time.
func abandoned(item *apiregistrationv1.APIService) bool {
	if item.Labels == nil {
		item.Labels = map[string]string{}
	}
	return item.Spec.Service == nil && item.Labels[apiconflict.AutomanagedLabel] == ""
}

// observers are watches of the objects of CRDs that show when those of all clients end.
type observers struct {
	watches []watch.Interface
}

// watchCRDs watches the objects of all CRDs that are handed over.
func (s *site) watchCRDs(ctx context.Context) (*observers, error) {
	opened := &observers{}
	for _, resource := range resources() {
		gvr, served := s.servedBy(resource, s.held)
		if !served {
			continue
		}
		list, err := s.objects.Resource(gvr).List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			opened.stop()
			return nil, s.WrapError(err, advice)
		}
		watching, err := s.objects.Resource(gvr).Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
		if err != nil {
			opened.stop()
			return nil, s.WrapError(err, advice)
		}
		opened.watches = append(opened.watches, watching)
	}
	return opened, nil
}

func (o *observers) stop() {
	for _, watching := range o.watches {
		watching.Stop()
	}
}

// ended returns when all watches have ended, or the context has.
func (o *observers) ended(ctx context.Context) error {
	var open sync.WaitGroup
	for _, watching := range o.watches {
		open.Go(func() {
			for {
				select {
				case _, ok := <-watching.ResultChan():
					if !ok {
						return
					}
				case <-ctx.Done():
					return
				}
			}
		})
	}
	open.Wait()
	return ctx.Err()
}

// endWatches makes the kube-apiserver end all watches of the objects of CRDs, by a change of
// the CRDs that has no other effect: otherwise they end after up to an hour, and until then
// their clients see none of the changes that mcs-apiserver serves.
func (s *site) endWatches(ctx context.Context, opened *observers) error {
	for _, resource := range resources() {
		crd := s.crds[resource.Plural]
		if crd == nil {
			continue
		}
		if err := s.changeCRD(ctx, resource.CRD(), toggleCategory); err != nil {
			return s.WrapError(err, advice)
		}
	}
	limited, cancel := context.WithTimeout(ctx, watchTimeout)
	defer cancel()
	if err := opened.ended(limited); err != nil && ctx.Err() == nil {
		return errWatchesOpen
	}
	return sleep(ctx, watchMargin)
}

var errWatchesOpen = errors.New("the kube-apiserver has not ended the watches of clients: they see no changes until it does, within an hour, or until the clients are restarted")

// toggleCategory adds a category, or removes it.
func toggleCategory(crd *unstructured.Unstructured) error {
	categories, _, err := unstructured.NestedStringSlice(crd.Object, "spec", "names", "categories")
	if err != nil {
		return err
	}
	if slices.Contains(categories, movedCategory) {
		categories = slices.DeleteFunc(categories, func(category string) bool { return category == movedCategory })
	} else {
		categories = append(categories, movedCategory)
	}
	return unstructured.SetNestedStringSlice(crd.Object, categories, "spec", "names", "categories")
}

// changeCRD changes a CRD, if the change is one.
func (s *site) changeCRD(ctx context.Context, name string, change func(*unstructured.Unstructured) error) error {
	client := s.objects.Resource(apiconflict.CRDResource)
	return retryOnConflict(ctx, func(ctx context.Context) error {
		crd, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		before := crd.DeepCopy()
		if err := change(crd); err != nil {
			return err
		}
		if specsEqual(before, crd) {
			return nil
		}
		_, err = client.Update(ctx, crd, metav1.UpdateOptions{})
		return err
	})
}

// touch changes an annotation of all objects that CRDs may have. Clients that continue a watch
// where it ended know them with the resourceVersions of CRDs, and could not update them. Objects
// that cannot be changed do not keep the others from being shown.
func (s *site) touch(ctx context.Context, now time.Time) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{multicluster.MigratedAtAnnotation: now.UTC().Format(time.RFC3339)}}})
	if err != nil {
		return err
	}
	var errs []error
	for _, resource := range crdmigration.Copied {
		gvr, served := s.servedBy(resource, s.ours)
		if !served {
			continue
		}
		objects, err := s.list(ctx, gvr)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, s.patchAll(ctx, gvr, objects, patch)...)
	}
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return s.WrapError(errs[0], advice)
	}
	return s.WrapError(fmt.Errorf("%w, and %d other objects", errs[0], len(errs)-1), advice)
}

// patchAll patches objects, and returns what failed.
func (s *site) patchAll(ctx context.Context, gvr schema.GroupVersionResource, objects []*unstructured.Unstructured, patch []byte) []error {
	var (
		mu    sync.Mutex
		errs  []error
		group errgroup.Group
	)
	group.SetLimit(writers)
	for _, object := range objects {
		group.Go(func() error {
			if err := ignoreNotFound(s.patch(ctx, gvr, object, patch)); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, fmt.Errorf("show %s %s/%s to clients: %w", object.GetKind(), object.GetNamespace(), object.GetName(), err))
			}
			return nil
		})
	}
	_ = group.Wait() // its functions collect their errors
	return errs
}

// patch patches an object. Replicas that still refuse changes are asked again.
func (s *site) patch(ctx context.Context, gvr schema.GroupVersionResource, object *unstructured.Unstructured, patch []byte) error {
	return retry.OnError(wait.Backoff{Duration: pollInterval, Steps: int(touchTimeout / pollInterval)}, isRefusal, func() error {
		_, err := s.objects.Resource(gvr).Namespace(object.GetNamespace()).Patch(ctx, object.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
}

// isRefusal reports whether one of the policies of this command refused a change.
func isRefusal(err error) bool {
	return apierrors.IsForbidden(err) && (strings.Contains(err.Error(), freezeMessage) || strings.Contains(err.Error(), guardMessage))
}
