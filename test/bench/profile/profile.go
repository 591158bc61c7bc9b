// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package profile takes CPU profiles of the processes of clusters while a benchmark runs.
package profile

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
)

// Start takes profiles of mcs-apiserver, mcs-controller and kube-apiserver of clusters for a time,
// and writes them to a directory. The returned function waits until they are written. Without a
// directory, nothing happens.
func Start(t *testing.T, dir, name string, lasts time.Duration, clusters ...*fleet.Cluster) (wait func()) {
	t.Helper()
	if dir == "" {
		return func() {}
	}
	expect.NoError(t, os.MkdirAll(dir, 0o755))
	var running sync.WaitGroup
	for _, cluster := range clusters {
		for program, config := range targets(t, cluster) {
			file := filepath.Join(dir, fmt.Sprintf("%s-%s-%s.pprof", name, cluster.ID, program))
			running.Go(func() {
				if err := take(t.Context(), config, lasts, file); err != nil {
					t.Errorf("profile of %s in %s: %v", program, cluster.ID, err)
				}
			})
		}
	}
	return running.Wait
}

// targets returns clients of the programs of a cluster.
func targets(t *testing.T, cluster *fleet.Cluster) map[string]*rest.Config {
	t.Helper()
	return map[string]*rest.Config{
		"kube-apiserver": expect.Must(cluster.Plane.AdminConfig())(t),
		"mcs-apiserver":  expect.Must(cluster.APIServers[0].Config())(t),
		"mcs-controller": expect.Must(controller(t.Context(), cluster))(t),
	}
}

// controller returns a client of mcs-controller, which recognizes tokens only.
func controller(ctx context.Context, cluster *fleet.Cluster) (*rest.Config, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "profiler", Namespace: metav1.NamespaceDefault}}
	accounts, roles := cluster.Kubernetes.CoreV1().ServiceAccounts(account.Namespace), cluster.Kubernetes.RbacV1()
	if _, err := accounts.Create(ctx, account, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, err
	}
	_, err := roles.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: account.Name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, err
	}
	token, err := accounts.CreateToken(ctx, account.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	server, err := cluster.APIServers[0].Config() // verifies the certificate, which both programs have
	if err != nil {
		return nil, err
	}
	config := rest.AnonymousClientConfig(server)
	config.Host, config.BearerToken = strings.TrimSuffix(cluster.MetricsURL(), "/metrics"), token.Status.Token
	return config, nil
}

// take takes a profile and writes it to a file.
func take(ctx context.Context, config *rest.Config, lasts time.Duration, file string) error {
	config = rest.CopyConfig(config)
	config.Timeout = lasts + time.Minute
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return err
	}
	data, err := client.Get().AbsPath("/debug/pprof/profile").Param("seconds", strconv.Itoa(int(lasts.Seconds()))).DoRaw(ctx)
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o644)
}
