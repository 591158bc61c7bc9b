// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
)

// Answer is whom the cluster of one Secret knows.
type Answer struct {
	// Name is the id in the Secret, or stands for a Secret that has none.
	Name, Secret string
	// Members are all that it knows, itself included, by their names there.
	Members map[string]*clusterset.Member
	// Problem is why it could not be asked, and what to do about it.
	Problem string
}

// Ask asks the clusters of all Secrets in the namespace, now: neither what the
// Secrets are nor what the clusters say is taken from any cache.
func Ask(ctx context.Context, client kubernetes.Interface, namespace string) ([]Answer, error) {
	secrets, err := client.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{
		FieldSelector: clusterset.MemberSecretSelector(),
	})
	if err != nil {
		return nil, fmt.Errorf("read the Secrets of the members in namespace %s: %w", namespace, err)
	}
	answers := make([]Answer, len(secrets.Items))
	var asking sync.WaitGroup
	for i := range secrets.Items {
		asking.Go(func() { answers[i] = ask(ctx, &secrets.Items[i]) })
	}
	asking.Wait()
	return answers, nil
}

func ask(ctx context.Context, secret *corev1.Secret) Answer {
	said := parseSecret(secret)
	answer := Answer{Name: said.entryName(), Secret: secret.Name}
	if said.problem != nil {
		answer.Problem = fmt.Sprintf("its Secret cannot be used: %v", said.problem)
		return answer
	}
	config := rest.CopyConfig(said.config)
	config.BearerToken = said.token
	client, err := versioned.NewForConfig(config)
	if err != nil {
		answer.Problem = fmt.Sprintf("its Secret cannot be used: %v", err)
		return answer
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	list, err := client.ClusterSetV1alpha1().Members().List(ctx, metav1.ListOptions{})
	if err == nil {
		answer.Members, err = readEntries(list)
	}
	switch {
	case err != nil:
		_, answer.Problem = explain(err)
	case !identified(answer.Members):
		answer.Members = nil
		answer.Problem = "it does not say who it is: it may have just been started, or have no claim " + multicluster.ClusterIDClaim
	}
	return answer
}

// identified says whether there is the entry of the one that answers. Without, what
// it knows of others is not all there is.
func identified(members map[string]*clusterset.Member) bool {
	for _, entry := range members {
		if entry.Status.State == clusterset.MemberLocal && entry.Status.ClusterUID != "" {
			return true
		}
	}
	return false
}
