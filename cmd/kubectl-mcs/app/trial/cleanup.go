// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

// limited runs a request that deletes, or reads what to delete, with a time of its own: one that hangs may
// not keep others from being tried.
func (s *site) limited(ctx context.Context, request func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.deleteTimeout)
	defer cancel()
	return request(ctx)
}

// cleanUp deletes everything that belongs to a run, whether it is known to exist or not: a request may
// have succeeded although there was no answer. mcs-apiserver may hang although Kubernetes does not, so that
// what is in both is deleted at the same time.
func (s *site) cleanUp(ctx context.Context, r run) error {
	if !s.changed {
		return nil
	}
	remove := func(what, name string, do func(context.Context) error) error {
		if err := s.limited(ctx, do); err != nil && !cluster.IsObjectNotFound(err) {
			return fmt.Errorf("delete %s %s in namespace %s: %w", what, name, r.namespace, s.WrapError(err, kubernetesAdvice))
		}
		return nil
	}
	parts := []func() error{
		func() error {
			var errs []error
			for _, name := range []string{r.service(), r.headless()} {
				errs = append(errs, remove("ServiceExport", name, func(ctx context.Context) error {
					return s.MCS.MulticlusterXV1beta1().ServiceExports(r.namespace).Delete(ctx, name, metav1.DeleteOptions{})
				}))
			}
			return errors.Join(errs...)
		},
		func() error {
			var errs []error
			for _, name := range []string{r.service(), r.headless()} {
				errs = append(errs, remove("Service", name, func(ctx context.Context) error {
					return s.Kubernetes.CoreV1().Services(r.namespace).Delete(ctx, name, metav1.DeleteOptions{})
				}))
			}
			for _, role := range []string{client, server} {
				name := r.service() + "-" + role
				errs = append(errs, remove("Pod", name, func(ctx context.Context) error {
					return s.Kubernetes.CoreV1().Pods(r.namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
				}))
			}
			return errors.Join(errs...)
		},
		func() error {
			if !r.ownNamespace {
				return nil
			}
			return remove("namespace", r.namespace, func(ctx context.Context) error {
				namespace, err := s.Kubernetes.CoreV1().Namespaces().Get(ctx, r.namespace, metav1.GetOptions{})
				if err == nil && namespace.Labels[runLabel] == r.id {
					err = s.deleteNamespace(ctx, namespace)
				}
				return err
			})
		},
	}
	return each(len(parts), func(i int) error { return parts[i]() })
}

func (s *site) deleteNamespace(ctx context.Context, namespace *corev1.Namespace) error {
	return s.Kubernetes.CoreV1().Namespaces().Delete(ctx, namespace.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(namespace.UID))})
}

// listed is an object that a run may have left, and how to delete it.
type listed struct {
	kind   string
	meta   metav1.ObjectMeta
	delete func(context.Context, metav1.DeleteOptions) error
}

func (l *listed) String() string {
	if l.meta.Namespace == "" {
		return l.kind + " " + l.meta.Name
	}
	return l.kind + " " + l.meta.Namespace + "/" + l.meta.Name
}

// isOfRun reports whether a run created the object. Its labels do not suffice: users who may not delete a
// namespace may be able to label it.
func (l *listed) isOfRun() bool {
	name := program + "-" + l.meta.Labels[runLabel]
	if l.meta.Namespace == "" {
		return l.meta.Name == name
	}
	return l.meta.Name == name || strings.HasPrefix(l.meta.Name, name+"-")
}

// abandoned is the age from which objects belong to a run that has ended, unless its timeout was longer than
// usual.
const abandoned = 20 * time.Minute

// whyKept returns why an object is not deleted without its run being named, or not at all, empty if it is.
func (s *site) whyKept(ctx context.Context, object *listed, run string) (string, error) {
	if run == "" && time.Since(object.meta.CreationTimestamp.Time) < abandoned {
		return fmt.Sprintf("it is younger than %s, and a test may use it; --run %s deletes it", abandoned, object.meta.Labels[runLabel]), nil
	}
	if object.meta.Namespace != "" {
		return "", nil
	}
	isOther := func(meta *metav1.ObjectMeta) bool {
		return meta.Labels[runLabel] != object.meta.Labels[runLabel] && meta.Labels[multicluster.ManagedByLabel] != multicluster.ManagedBy
	}
	pods, err := s.Kubernetes.CoreV1().Pods(object.meta.Name).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	for i := range pods.Items {
		if isOther(&pods.Items[i].ObjectMeta) {
			return fmt.Sprintf("it has Pod %s of somebody else", pods.Items[i].Name), nil
		}
	}
	services, err := s.Kubernetes.CoreV1().Services(object.meta.Name).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	for i := range services.Items {
		if isOther(&services.Items[i].ObjectMeta) {
			return fmt.Sprintf("it has Service %s of somebody else", services.Items[i].Name), nil
		}
	}
	return "", nil
}

// cleanUpAll deletes what runs left behind that were killed, in a namespace or in all of them, of one run or
// of all that have ended. It returns what it did with each object. Each kind is on its own, because one of
// the APIs may hang.
func (s *site) cleanUpAll(ctx context.Context, namespace, run string) ([]string, error) {
	selected := metav1.ListOptions{LabelSelector: allRuns}
	if run != "" {
		selected.LabelSelector += "=" + run
	}
	kinds := []func(context.Context) ([]listed, error){
		func(ctx context.Context) ([]listed, error) { return s.listExports(ctx, namespace, selected) },
		func(ctx context.Context) ([]listed, error) { return s.listServices(ctx, namespace, selected) },
		func(ctx context.Context) ([]listed, error) { return s.listPods(ctx, namespace, selected) },
	}
	if namespace == "" {
		kinds = append(kinds, func(ctx context.Context) ([]listed, error) { return s.listNamespaces(ctx, selected) })
	}
	done := make([][]string, len(kinds))
	err := each(len(kinds), func(i int) error {
		var found []listed
		if err := s.limited(ctx, func(ctx context.Context) (err error) { found, err = kinds[i](ctx); return err }); err != nil {
			return fmt.Errorf("list what runs left: %w", s.WrapError(err, kubernetesAdvice))
		}
		var errs []error
		for k := range found {
			object := &found[k]
			if !object.isOfRun() {
				continue
			}
			var kept string
			err := s.limited(ctx, func(ctx context.Context) (err error) {
				if kept, err = s.whyKept(ctx, object, run); err != nil || kept != "" {
					return err
				}
				return object.delete(ctx, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(object.meta.UID))})
			})
			switch {
			case cluster.IsObjectNotFound(err):
			case err != nil:
				errs = append(errs, fmt.Errorf("delete %s: %w", object, s.WrapError(err, kubernetesAdvice)))
			case kept != "":
				done[i] = append(done[i], fmt.Sprintf("kept %s: %s", object, kept))
			default:
				done[i] = append(done[i], fmt.Sprintf("deleted %s", object))
			}
		}
		return errors.Join(errs...)
	})
	return slices.Concat(done...), err
}

func (s *site) listExports(ctx context.Context, namespace string, options metav1.ListOptions) ([]listed, error) {
	list, err := s.MCS.MulticlusterXV1beta1().ServiceExports(namespace).List(ctx, options)
	if err != nil {
		return nil, err
	}
	var found []listed
	for i := range list.Items {
		meta := list.Items[i].ObjectMeta
		found = append(found, listed{"ServiceExport", meta, func(ctx context.Context, options metav1.DeleteOptions) error {
			return s.MCS.MulticlusterXV1beta1().ServiceExports(meta.Namespace).Delete(ctx, meta.Name, options)
		}})
	}
	return found, nil
}

func (s *site) listServices(ctx context.Context, namespace string, options metav1.ListOptions) ([]listed, error) {
	list, err := s.Kubernetes.CoreV1().Services(namespace).List(ctx, options)
	if err != nil {
		return nil, err
	}
	var found []listed
	for i := range list.Items {
		meta := list.Items[i].ObjectMeta
		found = append(found, listed{"Service", meta, func(ctx context.Context, options metav1.DeleteOptions) error {
			return s.Kubernetes.CoreV1().Services(meta.Namespace).Delete(ctx, meta.Name, options)
		}})
	}
	return found, nil
}

func (s *site) listPods(ctx context.Context, namespace string, options metav1.ListOptions) ([]listed, error) {
	list, err := s.Kubernetes.CoreV1().Pods(namespace).List(ctx, options)
	if err != nil {
		return nil, err
	}
	var found []listed
	for i := range list.Items {
		meta := list.Items[i].ObjectMeta
		found = append(found, listed{"Pod", meta, func(ctx context.Context, options metav1.DeleteOptions) error {
			return s.Kubernetes.CoreV1().Pods(meta.Namespace).Delete(ctx, meta.Name, options)
		}})
	}
	return found, nil
}

func (s *site) listNamespaces(ctx context.Context, options metav1.ListOptions) ([]listed, error) {
	list, err := s.Kubernetes.CoreV1().Namespaces().List(ctx, options)
	if err != nil {
		return nil, err
	}
	var found []listed
	for i := range list.Items {
		if namespace := &list.Items[i]; namespace.DeletionTimestamp == nil {
			found = append(found, listed{"namespace", namespace.ObjectMeta, func(ctx context.Context, options metav1.DeleteOptions) error {
				return s.Kubernetes.CoreV1().Namespaces().Delete(ctx, namespace.Name, options)
			}})
		}
	}
	return found, nil
}
