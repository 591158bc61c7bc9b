// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package survey asks all members which clusters they know, without any cache.
package survey

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/access"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/response"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/secret"
)

// timeout limits how long one member is waited for.
const timeout = 5 * time.Second

// Answer is the members list of the cluster that one Secret leads to.
type Answer struct {
	// Name is the cluster ID in the Secret, or a substitute if it has none.
	Name, Secret string
	// Members are all clusters that it knows, including itself, by name.
	Members map[string]*clusterset.Member
	// Problem tells why the list could not be read, and what to do about it.
	Problem string
}

// Members reads the members lists of all clusters that member Secrets in the
// namespace lead to. Neither the Secrets nor the lists come from a cache.
func Members(ctx context.Context, client kubernetes.Interface, namespace string) ([]Answer, error) {
	secrets, err := client.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{FieldSelector: clusterset.MemberSecretSelector()})
	if err != nil {
		return nil, fmt.Errorf("list member Secrets in namespace %s: %w", namespace, err)
	}
	members := slices.DeleteFunc(secrets.Items, func(s corev1.Secret) bool { return s.Type != clusterset.MemberSecretType })
	credentials, err := client.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{FieldSelector: clusterset.RenewedSecretSelector()})
	if err != nil {
		return nil, fmt.Errorf("list renewed credentials in namespace %s: %w", namespace, err)
	}
	renewed := map[string]secret.Renewed{}
	for i := range credentials.Items {
		if member, ok := clusterset.MemberSecretOf(credentials.Items[i].Name); ok {
			renewed[member] = secret.ParseRenewed(&credentials.Items[i])
		}
	}
	answers := make([]Answer, len(members))
	var asking sync.WaitGroup
	for i := range members {
		asking.Go(func() { answers[i] = ask(ctx, &members[i], renewed[members[i].Name]) })
	}
	asking.Wait()
	return answers, nil
}

func ask(ctx context.Context, from *corev1.Secret, renewed secret.Renewed) Answer {
	spec := secret.Parse(from)
	answer := Answer{Name: spec.EntryName(), Secret: from.Name}
	if spec.Problem != nil {
		answer.Problem = fmt.Sprintf("Secret is invalid: %v", spec.Problem)
		return answer
	}
	config := rest.CopyConfig(spec.Config)
	var tokens access.Tokens
	tokens.Set(renewed.Tokens(spec.Credential, spec.Token)...)
	config.Wrap(tokens.Over)
	client, err := versioned.NewForConfig(config)
	if err != nil {
		answer.Problem = fmt.Sprintf("Secret is invalid: %v", err)
		return answer
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	list, err := client.ClusterSetV1alpha1().Members().List(ctx, metav1.ListOptions{})
	var entries *response.Entries
	if err == nil {
		entries, err = response.Members(list)
	}
	if err != nil {
		_, answer.Problem = response.Explain(err)
		return answer
	}
	if answer.Members = entries.Members; !hasLocal(answer.Members) {
		answer.Members = nil
		answer.Problem = "member does not list itself: its server just started, or the ClusterClaim " + multicluster.ClusterIDClaim + " is missing there"
	}
	return answer
}

// hasLocal reports whether a list contains the cluster that it was read from.
// Otherwise the list is incomplete.
func hasLocal(members map[string]*clusterset.Member) bool {
	for _, entry := range members {
		if entry.Status.State == clusterset.MemberLocal && entry.Status.ClusterUID != "" {
			return true
		}
	}
	return false
}
