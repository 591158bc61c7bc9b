// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/printer"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	multiclusterv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/crdmigration"
)

var labels = map[string]string{"app.kubernetes.io/name": service}

// copying reports whether mcs-controller copies the objects of CRDs.
func (s *site) copying() bool { return s.phase() == crdmigration.Copying }

// phase is what the mark says, empty if there is none.
func (s *site) phase() crdmigration.Phase {
	if s.mark == nil {
		return ""
	}
	return crdmigration.PhaseOf(s.mark)
}

// startCopying lets mcs-controller copy the objects of CRDs, and register all that they do not
// serve. The mark comes last: mcs-controller then has the account.
func (s *site) startCopying(ctx context.Context) error {
	account := metav1.ObjectMeta{Namespace: s.namespace, Name: crdmigration.Account, Labels: labels}
	_, err := s.Kubernetes.CoreV1().ServiceAccounts(s.namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: account}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return s.WrapError(err, advice)
	}
	_, err = s.Kubernetes.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: crdmigration.Account, Labels: labels},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: crdmigration.ClusterRole},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.namespace, Name: crdmigration.Account}},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return s.WrapError(err, advice)
	}
	if err := s.guard(ctx); err != nil {
		return err
	}
	return s.changeMark(ctx, func(mark *corev1.ConfigMap) error {
		crdmigration.SetPhase(mark, crdmigration.Copying)
		return nil
	})
}

// changeMark creates or changes the mark.
func (s *site) changeMark(ctx context.Context, change func(*corev1.ConfigMap) error) error {
	marks := s.Kubernetes.CoreV1().ConfigMaps(s.namespace)
	err := retryOnConflict(ctx, func(ctx context.Context) error {
		mark, err := marks.Get(ctx, clusterset.MigrationConfigMap, metav1.GetOptions{})
		write := func() (*corev1.ConfigMap, error) { return marks.Update(ctx, mark, metav1.UpdateOptions{}) }
		if cluster.IsObjectNotFound(err) {
			mark = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: clusterset.MigrationConfigMap, Labels: labels}}
			write = func() (*corev1.ConfigMap, error) { return marks.Create(ctx, mark, metav1.CreateOptions{}) }
		} else if err != nil {
			return err
		}
		if err := change(mark); err != nil {
			return err
		}
		written, err := write()
		if err == nil {
			s.mark = written
		}
		return err
	})
	if err != nil {
		return s.WrapError(err, advice)
	}
	return nil
}

// stopCopying removes everything that copying needed. The mark comes last: as long as it exists,
// the command knows that there is something to remove.
func (s *site) stopCopying(ctx context.Context) error {
	if err := errors.Join(s.removeAccount(ctx), s.unguard(ctx)); err != nil {
		return s.WrapError(err, advice)
	}
	if err := ignoreNotFound(s.Kubernetes.CoreV1().ConfigMaps(s.namespace).Delete(ctx, clusterset.MigrationConfigMap, metav1.DeleteOptions{})); err != nil {
		return s.WrapError(err, advice)
	}
	s.mark = nil
	return nil
}

// removeAccount removes the service account that copies objects.
func (s *site) removeAccount(ctx context.Context) error {
	return errors.Join(
		ignoreNotFound(s.Kubernetes.RbacV1().ClusterRoleBindings().Delete(ctx, crdmigration.Account, metav1.DeleteOptions{})),
		ignoreNotFound(s.Kubernetes.CoreV1().ServiceAccounts(s.namespace).Delete(ctx, crdmigration.Account, metav1.DeleteOptions{})),
	)
}

func ignoreNotFound(err error) error {
	if cluster.IsObjectNotFound(err) {
		return nil
	}
	return err
}

// awaitRegistration waits until everything that CRDs do not serve is registered.
func (s *site) awaitRegistration(ctx context.Context, timeout time.Duration) error {
	return s.await(ctx, timeout, "mcs-controller has not registered "+multiclusterv1alpha1.SchemeGroupVersion.String(), func(ctx context.Context) error {
		item, err := s.apiService(ctx, multiclusterv1alpha1.SchemeGroupVersion)
		if err != nil {
			return err
		}
		return available(item)
	})
}

// available returns why an APIService is not available.
func available(item *apiregistrationv1.APIService) error {
	for _, condition := range item.Status.Conditions {
		if condition.Type == apiregistrationv1.Available {
			if condition.Reason == "Local" {
				break // it is about the time before it referred to mcs-apiserver
			}
			if condition.Status == apiregistrationv1.ConditionTrue {
				return nil
			}
			return fmt.Errorf("APIService %s is not available: %s", item.Name, printer.Escape(condition.Message))
		}
	}
	return fmt.Errorf("APIService %s was not checked by the kube-apiserver yet", item.Name)
}

// awaitCopying waits until the objects of all CRDs were copied once. They may change all the
// time.
func (s *site) awaitCopying(ctx context.Context, timeout time.Duration) error {
	return s.awaitReport(ctx, timeout, func(_ context.Context, _ crdmigration.Resource, _ schema.GroupVersionResource, result crdmigration.ResourceReport) error {
		if result.Digest == "" {
			return errors.New("see the log of mcs-controller")
		}
		return nil
	})
}

// awaitCopies waits until all objects of CRDs are copied as they are now, while changes are
// refused.
func (s *site) awaitCopies(ctx context.Context, timeout time.Duration) error {
	if err := s.changeMark(ctx, func(mark *corev1.ConfigMap) error {
		crdmigration.Request(mark, rand.Text())
		return nil
	}); err != nil {
		return err
	}
	return s.awaitReport(ctx, timeout, func(ctx context.Context, resource crdmigration.Resource, gvr schema.GroupVersionResource, result crdmigration.ResourceReport) error {
		custom, err := s.list(ctx, gvr)
		if err != nil {
			return err
		}
		digest, err := resource.Digest(custom)
		if err == nil && result.Digest != digest {
			err = fmt.Errorf("the last change of %s is not copied yet: see the log of mcs-controller", resource.Plural)
		}
		return err
	})
}

// awaitReport waits until what mcs-controller reports about all resources passes a check.
func (s *site) awaitReport(ctx context.Context, timeout time.Duration, check func(context.Context, crdmigration.Resource, schema.GroupVersionResource, crdmigration.ResourceReport) error) error {
	return s.await(ctx, timeout, "mcs-controller has not copied all objects", func(ctx context.Context) error {
		mark, err := s.Kubernetes.CoreV1().ConfigMaps(s.namespace).Get(ctx, clusterset.MigrationConfigMap, metav1.GetOptions{})
		if err != nil {
			return err
		}
		s.mark = mark
		report, err := crdmigration.ReportOf(mark)
		switch {
		case err != nil:
			return err
		case report.Problem != "":
			return errors.New(printer.Escape(report.Problem))
		case report.Request != crdmigration.RequestOf(mark):
			return errors.New("the last report is too old: see the log of mcs-controller")
		}
		for _, resource := range crdmigration.Copied {
			gvr, served := s.servedBy(resource, s.held)
			if !served {
				continue
			}
			if err := check(ctx, resource, gvr, report.Resources[resource.Plural]); err != nil {
				return err
			}
		}
		return nil
	})
}

// printReport prints what was copied, and what was not.
func (s *site) printReport(out io.Writer) {
	report, err := crdmigration.ReportOf(s.mark)
	if err != nil {
		return
	}
	for _, resource := range crdmigration.Copied {
		if result, ok := report.Resources[resource.Plural]; ok {
			fmt.Fprintf(out, "%s: %d %s are copied.\n", s.Context, result.Copied, resource.Plural)
		}
	}
	for _, loss := range notCopied(report) {
		fmt.Fprintf(out, "%s: %s\n", s.Context, printer.Escape(loss))
	}
}
