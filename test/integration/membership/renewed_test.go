// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/feed"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
)

// declared returns a member Secret without what the cluster adds, as a file of a user has it.
func declared(t *testing.T, in *fleet.Cluster, peer string) *corev1.Secret {
	t.Helper()
	secret, err := in.Kubernetes.CoreV1().Secrets(installation.Namespace).Get(t.Context(), clusterset.MemberSecretName(peer), metav1.GetOptions{})
	expect.NoError(t, err)
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: secret.Namespace, Name: secret.Name, Labels: secret.Labels}, Type: secret.Type, Data: secret.Data,
	}
}

// R385, R386, R414: a member Secret that is applied from a file is never written. Its credential
// is one to begin with: when it is no longer valid, the renewed one goes on, also when the file
// is applied again.
func TestDeclaredMemberSecretIsABootstrapCredential(t *testing.T) {
	ns := clusters.CreateNamespace(t, "declared")
	join(t, "east", "west")
	export(t, east(), ns, "web")
	west().AwaitImport(t, ns, "web", "east")

	// A token that ends with a Secret is as good as one that expires.
	bound := expect.Must(east().Kubernetes.CoreV1().Secrets(installation.Namespace).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "bootstrap"}}, metav1.CreateOptions{}))(t)
	token := expect.Must(run(t, "--context", "east", "create", "token", "peer-west", "-n", installation.Namespace, "--duration=30m", "--bound-object-kind=Secret", "--bound-object-name=bootstrap"))(t)
	awaitLongTokens(t)
	_, before, err := tokenLife(t.Context(), west(), "east")
	expect.NoError(t, err)
	replaceToken(t, west(), "east", strings.TrimSpace(token))
	expect.Eventually(t, "another token", func(ctx context.Context) error {
		_, after, err := tokenLife(ctx, west(), "east")
		if err == nil && after == before {
			err = errors.New("it is the same")
		}
		return err
	})
	secrets := west().Kubernetes.CoreV1().Secrets(installation.Namespace)
	file := expect.Manifest(t, "%s", string(expect.Must(yaml.Marshal(declared(t, west(), "east")))(t)))
	expect.Must(west().Kubectl(t.Context(), "apply", "--server-side", "--force-conflicts", "-f", file))(t)
	applied := expect.Must(secrets.Get(t.Context(), "member-east", metav1.GetOptions{}))(t)
	_, renewed, err := tokenLife(t.Context(), west(), "east")
	expect.NoError(t, err)

	expect.NoError(t, east().Kubernetes.CoreV1().Secrets(installation.Namespace).Delete(t.Context(), bound.Name, metav1.DeleteOptions{}))
	expect.Eventually(t, "rejection of the declared credential", func(ctx context.Context) error {
		config := peerConfigs(t, west(), east())["kube-apiserver"]
		_, err := clientset(t, config).ClusterSetV1alpha1().Members().List(ctx, metav1.ListOptions{})
		if !apierrors.IsUnauthorized(err) {
			return fmt.Errorf("got %w", err)
		}
		return nil
	})
	log := follows(t, west(), "east")
	for range 3 { // as tools do that correct deviations
		expect.Must(west().Kubectl(t.Context(), "apply", "--server-side", "-f", file))(t)
	}
	export(t, east(), ns, "more")
	west().AwaitImport(t, ns, "more", "east")
	<-time.After(2 * feed.ProbeInterval) // for which nothing but a probe fails
	if states := log(); len(states) > 0 {
		t.Errorf("states of the member: %v", states)
	}
	if diff := cmp.Diff(applied, expect.Must(secrets.Get(t.Context(), "member-east", metav1.GetOptions{}))(t)); diff != "" {
		t.Errorf("the member Secret was written: %s", diff)
	}
	if _, now, err := tokenLife(t.Context(), west(), "east"); err != nil || now != renewed {
		t.Errorf("the renewed credential was replaced (%v)", err)
	}

	// R414: a change that is undone brings the credential back that was renewed before.
	replaceToken(t, west(), "east", strings.TrimSpace(expect.Must(run(t, "--context", "east", "create", "token", "peer-west", "-n", installation.Namespace, "--duration=30m"))(t)))
	awaitLongTokens(t)
	if _, now, err := tokenLife(t.Context(), west(), "east"); err != nil || now == renewed {
		t.Errorf("another token was not exchanged (%v)", err)
	}
	expect.Must(west().Kubectl(t.Context(), "apply", "--server-side", "--force-conflicts", "-f", file))(t)
	if _, now, err := tokenLife(t.Context(), west(), "east"); err != nil || now != renewed {
		t.Errorf("the renewed credential was lost (%v)", err)
	}
	export(t, east(), ns, "most")
	west().AwaitImport(t, ns, "most", "east")
}

// R389: nobody but mcs-controller writes renewed credentials.
func TestRenewedCredentialsAreProtected(t *testing.T) {
	join(t, "east", "west")
	awaitLongTokens(t)
	_, err := west().Kubectl(t.Context(), "create", "rolebinding", "-n", installation.Namespace, "test-jane", "--clusterrole=admin", "--user=jane")
	expect.NoError(t, err)
	t.Cleanup(func() {
		_, _ = west().Kubectl(context.Background(), "delete", "rolebinding", "-n", installation.Namespace, "test-jane")
	})
	jane := func(args ...string) error {
		output, err := west().Kubectl(t.Context(), append([]string{"--as=jane", "-n", installation.Namespace}, args...)...)
		if err != nil {
			return fmt.Errorf("%w: %s", err, output)
		}
		return nil
	}
	const renewed = "member-east.renewed"
	for name, refused := range map[string]error{
		"create": jane("create", "secret", "generic", "forged.renewed", "--type="+string(clusterset.RenewedSecretType), "--from-literal=token=x"),
		"patch":  jane("patch", "secret", renewed, "--type=merge", "-p", `{"stringData": {"token": "x"}}`),
		"empty":  jane("patch", "secret", renewed, "--type=merge", "-p", `{"data": null}`),
		"seal":   jane("patch", "secret", renewed, "--type=merge", "-p", `{"immutable": true}`),
		"keep":   jane("patch", "secret", renewed, "--type=merge", "-p", `{"metadata": {"finalizers": ["example.com/keep"]}}`),
		"own": jane("patch", "secret", renewed, "--type=merge", "-p",
			`{"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "x"}]}}`),
	} {
		if refused == nil || !strings.Contains(refused.Error(), "renewed-credentials.mcs-apiserver.io") {
			t.Errorf("%s: got %v", name, refused)
		}
	}
	// Writing it again unchanged encrypts it with another key.
	expect.NoError(t, jane("label", "secret", renewed, "team=platform"))

	// It goes with the member.
	secrets := west().Kubernetes.CoreV1().Secrets(installation.Namespace)
	expect.NoError(t, secrets.Delete(t.Context(), "member-east", metav1.DeleteOptions{}))
	expect.Eventually(t, "end of the renewed credential", func(ctx context.Context) error {
		if _, err := secrets.Get(ctx, renewed, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("got %w", err)
		}
		return nil
	})
}
