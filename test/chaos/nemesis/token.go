// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package nemesis

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/golang-jwt/jwt/v5"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster"
)

const kubeconfigKey = "kubeconfig"

// expireToken replaces the peer credential of a cluster, in the cluster that reads from it, by
// one that the cluster itself issued and that has expired.
func (e *Executor) expireToken(ctx context.Context, fault Fault) (func(context.Context) error, error) {
	issuer, err := e.Set.Cluster(fault.Clusters[0])
	if err != nil {
		return nil, err
	}
	reader, err := e.Set.Cluster(fault.Clusters[1])
	if err != nil {
		return nil, err
	}
	var valid, expired []byte
	if err := retry(ctx, func(ctx context.Context) error {
		return changeSecret(ctx, reader, issuer.Name, func(kubeconfig []byte) ([]byte, error) {
			valid = kubeconfig
			expired, err = expire(kubeconfig, filepath.Join(filepath.Dir(issuer.Kubeconfig()), "service-account.key"), time.Now())
			return expired, err
		})
	}); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		return retry(ctx, func(ctx context.Context) error {
			return changeSecret(ctx, reader, issuer.Name, func(kubeconfig []byte) ([]byte, error) {
				if !bytes.Equal(kubeconfig, expired) {
					return kubeconfig, nil // it was replaced
				}
				return valid, nil
			})
		})
	}, nil
}

// changeSecret changes the kubeconfig in the Secret of a member.
func changeSecret(ctx context.Context, cluster *localcluster.Cluster, member string, change func(kubeconfig []byte) ([]byte, error)) error {
	config, err := cluster.Config()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	secrets, err := client.CoreV1().Secrets(system).List(ctx, metav1.ListOptions{FieldSelector: "type=clusterset.mcs-apiserver.io/member"})
	if err != nil {
		return err
	}
	for i := range secrets.Items {
		secret := &secrets.Items[i]
		if string(secret.Data["cluster-id"]) == member {
			return updateSecret(ctx, client, secret, change)
		}
	}
	return fmt.Errorf("cluster %s has no Secret of member %s", cluster.Name, member)
}

func updateSecret(ctx context.Context, client kubernetes.Interface, secret *corev1.Secret, change func([]byte) ([]byte, error)) error {
	changed, err := change(secret.Data[kubeconfigKey])
	if err != nil {
		return err
	}
	secret.Data[kubeconfigKey] = changed
	_, err = client.CoreV1().Secrets(system).Update(ctx, secret, metav1.UpdateOptions{})
	return err
}

// expire returns a kubeconfig whose token expired an hour ago, with a signature of the key.
func expire(kubeconfig []byte, keyFile string, now time.Time) ([]byte, error) {
	config, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, err
	}
	pem, err := os.ReadFile(keyFile)
	if err != nil {
		return nil, err
	}
	key, err := jwt.ParseECPrivateKeyFromPEM(pem)
	if err != nil {
		return nil, err
	}
	for _, user := range config.AuthInfos {
		claims := jwt.MapClaims{}
		token, _, err := jwt.NewParser().ParseUnverified(user.Token, claims)
		if err != nil {
			return nil, fmt.Errorf("parse the token of the member: %w", err)
		}
		for claim, age := range map[string]time.Duration{"iat": 2 * time.Hour, "nbf": 2 * time.Hour, "exp": time.Hour} {
			claims[claim] = now.Add(-age).Unix()
		}
		replaced := jwt.NewWithClaims(jwt.SigningMethodES256, claims)
		replaced.Header = token.Header
		if user.Token, err = replaced.SignedString(key); err != nil {
			return nil, err
		}
	}
	return clientcmd.Write(*config)
}
