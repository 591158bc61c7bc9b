// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package moving tests how clusters move from the CRDs of another implementation to
// mcs-apiserver and back, on real control planes, while clients watch.
package moving

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apiconflict"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/documents"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
)

// clusters are in no ClusterSet. Each test has clusters of its own.
var clusters *fleet.Fleet

func TestMain(m *testing.M) {
	fleet.Main(m, &clusters, fleet.Config{Names: []string{"east", "west", "north"}})
}

func cluster(id string) *fleet.Cluster { return clusters.Cluster(id) }

// operator is the administrator who migrates. The policies of the installation hold for it, as
// for that of kubeadm: it may do everything, but is not in the group system:masters.
const operator = "operator"

// command returns a kubectl command of the operator, with a context per cluster.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	all, dir := clientcmdapi.NewConfig(), t.TempDir()
	for _, c := range clusters.Clusters {
		file := filepath.Join(dir, c.ID)
		expect.NoError(t, c.Plane.WriteUserKubeconfig(file, operator))
		one := expect.Must(clientcmd.LoadFromFile(file))(t)
		context := one.Contexts[one.CurrentContext]
		all.Clusters[c.ID], all.AuthInfos[c.ID] = one.Clusters[context.Cluster], one.AuthInfos[context.AuthInfo]
		all.Contexts[c.ID] = &clientcmdapi.Context{Cluster: c.ID, AuthInfo: c.ID}
	}
	file := filepath.Join(dir, "kubeconfig")
	expect.NoError(t, clientcmd.WriteToFile(*all, file))
	return clusters.KubectlCommand(t.Context(), file, args...)
}

// run runs kubectl as the operator and returns its combined output.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	output, err := command(t, args...).CombinedOutput()
	return string(output), err
}

// kubectl runs kubectl, which must succeed.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	output, err := run(t, args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return output
}

// shell returns a shell of the operator, who confirms what commands ask.
func shell(t *testing.T) documents.Shell {
	t.Helper()
	use := command(t, "config", "use-context", "east")
	expect.NoError(t, use.Run())
	return documents.Shell{Env: use.Env, Answer: "y"}
}

// objects returns a client for all resources, as the administrator.
func objects(t *testing.T, in *fleet.Cluster) dynamic.Interface {
	t.Helper()
	admin := expect.Must(in.Plane.AdminConfig())(t)
	admin.WarningHandler = rest.NoWarnings{}
	return expect.Must(dynamic.NewForConfig(admin))(t)
}

var (
	v1beta1  = schema.GroupVersion{Group: "multicluster.x-k8s.io", Version: "v1beta1"}
	v1alpha1 = schema.GroupVersion{Group: "multicluster.x-k8s.io", Version: "v1alpha1"}
	exports  = v1beta1.WithResource("serviceexports")
	imports  = v1beta1.WithResource("serviceimports")
)

// startWithCRDs makes a cluster one that had CRDs before mcs-apiserver was installed: nothing
// of its API is registered.
func startWithCRDs(t *testing.T, in *fleet.Cluster, groupVersions []schema.GroupVersion, definitions ...string) {
	t.Helper()
	expect.Must(in.Kubernetes.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: operator}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: operator}},
	}, metav1.CreateOptions{}))(t)
	expect.NoError(t, in.StopController())
	for _, definition := range definitions {
		kubectl(t, "--context", in.ID, "apply", "--server-side", "-f", expect.Manifest(t, "%s", definition))
	}
	kubectl(t, "--context", in.ID, "wait", "crd", "--all", "--for=condition=Established", "--timeout=60s")
	kubectl(t, "--context", in.ID, "delete", "apiservices", "-l", "app.kubernetes.io/managed-by=mcs-controller")
	for _, gv := range groupVersions {
		awaitServedBy(t, in, gv, false)
	}
	expect.NoError(t, in.StartController(t.Context()))
}

// awaitServedBy waits until mcs-apiserver or CRDs serve a group-version.
func awaitServedBy(t *testing.T, in *fleet.Cluster, gv schema.GroupVersion, ours bool) {
	t.Helper()
	expect.Eventually(t, gv.String(), func(ctx context.Context) error {
		item, err := in.Aggregator.ApiregistrationV1().APIServices().Get(ctx, apiconflict.APIServiceName(gv), metav1.GetOptions{})
		switch {
		case err != nil:
			return err
		case (item.Spec.Service != nil) != ours:
			return fmt.Errorf("served by %v", item.Spec.Service)
		}
		for _, condition := range item.Status.Conditions {
			if condition.Status == "True" {
				return nil
			}
		}
		return errors.New("not available")
	})
}
