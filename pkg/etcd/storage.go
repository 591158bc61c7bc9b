// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

const (
	// storageTimeout limits calls of etcd, which does not limit them itself. It is
	// shorter than the request timeout of this server, so that clients receive a
	// response.
	storageTimeout = 10 * time.Second
	// retryAfterSeconds is sent to clients with a 503.
	retryAfterSeconds = 1

	// reasonInsufficientStorage is the reason of a status with code 507.
	reasonInsufficientStorage metav1.StatusReason = "InsufficientStorage"
)

var errTimeout = fmt.Errorf("etcd did not respond within %s", storageTimeout)

// Space is the space of an etcd.
type Space interface {
	// Refusing reports whether etcd is known to refuse writes. They are not sent to it,
	// because it would append them to its log.
	Refusing() bool
	// ExplainFull returns why etcd refuses writes, and what to do.
	ExplainFull() string
}

// ExternalSpace is the space of an external etcd with these servers.
type ExternalSpace []string

// Refusing implements Space.
func (ExternalSpace) Refusing() bool { return false }

// ExplainFull implements Space.
func (s ExternalSpace) ExplainFull() string {
	return fmt.Sprintf("etcd at %s reached its quota (--quota-backend-bytes): delete objects, compact and defragment it, and then disarm its alarm NOSPACE", strings.Join(s, ", "))
}

// Limit returns storage in etcd whose calls end within seconds if etcd does not
// respond, and whose errors say what to do.
func Limit(getter generic.RESTOptionsGetter, space Space) generic.RESTOptionsGetter {
	return limitedOptions{getter, space}
}

type limitedOptions struct {
	generic.RESTOptionsGetter
	space Space
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (o limitedOptions) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	options, err := o.RESTOptionsGetter.GetRESTOptions(resource, example)
	if err != nil {
		return options, err
	}
	options.Decorator = decorate(options.Decorator, o.space)
	return options, nil
}

func decorate(next generic.StorageDecorator, space Space) generic.StorageDecorator {
	return func(config *storagebackend.ConfigForResource, resourcePrefix string, keyFunc func(obj runtime.Object) (string, error),
		newFunc, newListFunc func() runtime.Object, attributes storage.AttrFunc, triggers storage.IndexerFuncs, indexers *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		stored, destroy, err := next(config, resourcePrefix, keyFunc, newFunc, newListFunc, attributes, triggers, indexers)
		if err != nil {
			return nil, nil, err
		}
		return &limitedStorage{stored, space}, destroy, nil
	}
}

// limitedStorage limits the duration of calls and translates errors.
type limitedStorage struct {
	storage.Interface
	space Space
}

// room returns an error if etcd is known to refuse writes.
func (s *limitedStorage) room() error {
	if s.space.Refusing() {
		return rpctypes.ErrNoSpace
	}
	return nil
}

// call limits and translates.
func (s *limitedStorage) call(ctx context.Context, call func(context.Context, *time.Timer) error) error {
	return s.translate(limit(ctx, call))
}

// write is call for writes. If the connection was lost, or the leader changed,
// whether a write was done is unknown: clients must not repeat it blindly.
func (s *limitedStorage) write(ctx context.Context, call func(context.Context, *time.Timer) error) error {
	err := limit(ctx, call)
	if code(err) == codes.Unavailable {
		return apierrors.NewTimeoutError("storage is unavailable, whether the object was written is unknown: "+err.Error(), 0)
	}
	return s.translate(err)
}

// limit limits the time that a call spends in etcd. The call stops the timer
// while it runs code of its caller, such as admission.
func limit(ctx context.Context, call func(context.Context, *time.Timer) error) error {
	limited, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(storageTimeout, func() { cancel(errTimeout) })
	defer timer.Stop()
	err := call(limited, timer)
	if err != nil && ctx.Err() == nil && errors.Is(context.Cause(limited), errTimeout) {
		err = errTimeout
	}
	return err
}

// translate returns an API status for errors that are not about the request. Without
// a status, clients receive a 500 with a text that only makes sense to those who know etcd.
func (s *limitedStorage) translate(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errTimeout):
		// Whether a write was done is unknown: clients must not repeat it blindly.
		return apierrors.NewTimeoutError("storage is unavailable: "+err.Error(), 0)
	case errors.Is(err, rpctypes.ErrNoSpace):
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusInsufficientStorage, Reason: reasonInsufficientStorage,
			Message: "storage is full: " + s.space.ExplainFull(),
		}}
	case errors.Is(err, rpctypes.ErrTooManyRequests):
		return apierrors.NewTooManyRequests("storage is overloaded: "+err.Error(), retryAfterSeconds)
	case errors.Is(err, rpctypes.ErrRequestTooLarge) || code(err) == codes.ResourceExhausted: // by the server, or by the client
		return apierrors.NewRequestEntityTooLargeError("object is too large for etcd; remove labels, annotations or managed fields")
	case code(err) == codes.Unavailable: // etcd has no leader, or the connection was lost
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusServiceUnavailable, Reason: metav1.StatusReasonServiceUnavailable,
			Message: "storage is unavailable: " + err.Error(), Details: &metav1.StatusDetails{RetryAfterSeconds: retryAfterSeconds},
		}}
	}
	return err
}

// code returns the gRPC code of an error, known to etcd or not.
func code(err error) codes.Code {
	var known rpctypes.EtcdError
	if errors.As(err, &known) {
		return known.Code()
	}
	return status.Code(err)
}

// Create implements storage.Interface.
func (s *limitedStorage) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	return s.write(ctx, func(ctx context.Context, _ *time.Timer) error {
		if err := s.room(); err != nil {
			return err
		}
		return s.Interface.Create(ctx, key, obj, out, ttl)
	})
}

// Delete implements storage.Interface.
func (s *limitedStorage) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, cached runtime.Object, opts storage.DeleteOptions,
) error {
	return s.write(ctx, func(limited context.Context, timer *time.Timer) error {
		return s.Interface.Delete(limited, key, out, preconditions, func(_ context.Context, obj runtime.Object) error {
			timer.Stop()
			defer timer.Reset(storageTimeout)
			return validate(ctx, obj)
		}, cached, opts)
	})
}

// Get implements storage.Interface.
func (s *limitedStorage) Get(ctx context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	return s.call(ctx, func(ctx context.Context, _ *time.Timer) error { return s.Interface.Get(ctx, key, opts, out) })
}

// GetList implements storage.Interface.
func (s *limitedStorage) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	return s.call(ctx, func(ctx context.Context, _ *time.Timer) error { return s.Interface.GetList(ctx, key, opts, list) })
}

// GuaranteedUpdate implements storage.Interface.
func (s *limitedStorage) GuaranteedUpdate(ctx context.Context, key string, out runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, update storage.UpdateFunc, cached runtime.Object,
) error {
	return s.write(ctx, func(ctx context.Context, timer *time.Timer) error {
		return s.Interface.GuaranteedUpdate(ctx, key, out, ignoreNotFound, preconditions, func(input runtime.Object, res storage.ResponseMeta) (runtime.Object, *uint64, error) {
			timer.Stop()
			defer timer.Reset(storageTimeout)
			output, ttl, err := update(input, res)
			if err == nil && !apiequality.Semantic.DeepEqual(input, output) {
				err = s.room()
			}
			return output, ttl, err
		}, cached)
	})
}

// GetCurrentResourceVersion implements storage.Interface.
func (s *limitedStorage) GetCurrentResourceVersion(ctx context.Context) (version uint64, err error) {
	err = s.call(ctx, func(ctx context.Context, _ *time.Timer) error {
		version, err = s.Interface.GetCurrentResourceVersion(ctx)
		return err
	})
	return version, err
}

// Watch implements storage.Interface. A watch has no time limit.
func (s *limitedStorage) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	watcher, err := s.Interface.Watch(ctx, key, opts)
	return watcher, s.translate(err)
}
