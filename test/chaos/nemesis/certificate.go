// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package nemesis

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/cert"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster"
)

// servingSecret is the Secret with the serving certificate of mcs-apiserver.
const servingSecret = "mcs-apiserver-serving-cert"

// expireCertificate replaces a serving certificate by one that has expired. That of
// kube-apiserver is put back afterwards; that of mcs-apiserver is to be renewed by
// mcs-controller. kube-apiserver is started anew, or else open connections would go on.
func expireCertificate(ctx context.Context, cluster *localcluster.Cluster, fault Fault) (func(context.Context) error, error) {
	if fault.Program == mcsAPIServer {
		return func(ctx context.Context) error {
			return errors.Join(retry(ctx, func(ctx context.Context) error { return isRenewed(ctx, cluster) }), awaitReplicas(ctx, cluster))
		}, retry(ctx, func(ctx context.Context) error { return expireServing(ctx, cluster) })
	}
	directory := filepath.Dir(cluster.Kubeconfig())
	file := filepath.Join(directory, "server.crt")
	valid, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	authority, err := tls.LoadX509KeyPair(filepath.Join(directory, "ca.crt"), filepath.Join(directory, "ca.key"))
	if err != nil {
		return nil, err
	}
	expired, err := expiredCertificate(valid, authority, time.Now())
	if err != nil {
		return nil, err
	}
	daemon, err := cluster.Component(kubeAPIServer)
	if err != nil {
		return nil, err
	}
	replace := func(certificate []byte) error {
		return errors.Join(daemon.Kill(), os.WriteFile(file, certificate, 0o644)) //nolint:gosec // it is public
	}
	return func(ctx context.Context) error { return errors.Join(replace(valid), start(ctx, cluster)) },
		errors.Join(replace(expired), daemon.Start())
}

// expiredCertificate returns a certificate for the same key and names that expired an hour ago.
func expiredCertificate(valid []byte, authority tls.Certificate, now time.Time) ([]byte, error) {
	certificates, err := cert.ParseCertsPEM(valid)
	if err != nil {
		return nil, err
	}
	template := *certificates[0]
	template.NotBefore, template.NotAfter = now.Add(-24*time.Hour), now.Add(-time.Hour)
	signed, err := x509.CreateCertificate(rand.Reader, &template, authority.Leaf, template.PublicKey, authority.PrivateKey)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(signed)
	if err != nil {
		return nil, err
	}
	return cert.EncodeCertificates(certificate)
}

func servingSecretOf(ctx context.Context, cluster *localcluster.Cluster) (*corev1.Secret, kubernetes.Interface, error) {
	config, err := cluster.Config()
	if err != nil {
		return nil, nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	secret, err := client.CoreV1().Secrets(system).Get(ctx, servingSecret, metav1.GetOptions{})
	return secret, client, err
}

func expireServing(ctx context.Context, cluster *localcluster.Cluster) error {
	secret, client, err := servingSecretOf(ctx, cluster)
	if err != nil {
		return err
	}
	authority, err := tls.X509KeyPair(secret.Data["ca.crt"], secret.Data["ca.key"])
	if err != nil {
		return err
	}
	if secret.Data[corev1.TLSCertKey], err = expiredCertificate(secret.Data[corev1.TLSCertKey], authority, time.Now()); err != nil {
		return err
	}
	_, err = client.CoreV1().Secrets(system).Update(ctx, secret, metav1.UpdateOptions{})
	return err
}

func isRenewed(ctx context.Context, cluster *localcluster.Cluster) error {
	secret, _, err := servingSecretOf(ctx, cluster)
	if err != nil {
		return err
	}
	certificates, err := cert.ParseCertsPEM(secret.Data[corev1.TLSCertKey])
	if err != nil {
		return err
	}
	if expired := certificates[0].NotAfter; time.Now().After(expired) {
		return fmt.Errorf("the serving certificate of mcs-apiserver expired at %s and has not been renewed", expired)
	}
	return nil
}
