// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	apiserveradmission "k8s.io/apiserver/pkg/admission"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/rest"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/admission"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetvalidation "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/validation"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/liveness"
)

// MemberOptions configures the other clusters of the ClusterSet.
type MemberOptions struct {
	Namespace string
	TTL       time.Duration
	// LostPolicy is Withdraw, KeepLast or Keep.
	LostPolicy string
}

func newMemberOptions() *MemberOptions {
	namespace := os.Getenv("POD_NAMESPACE")
	if namespace == "" {
		namespace = "mcs-system"
	}
	return &MemberOptions{Namespace: namespace, TTL: liveness.DefaultTTL, LostPolicy: string(clusterset.LostPolicyWithdraw)}
}

// AddFlags adds the flags of this group.
func (o *MemberOptions) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Namespace, "namespace", o.Namespace,
		"Namespace of this installation, which contains the Secrets of members. "+
			"Defaults to the environment variable POD_NAMESPACE if it is set.")
	flags.DurationVar(&o.TTL, "member-ttl", o.TTL,
		"How long a member can be silent before its endpoints are withdrawn that do not answer, or cannot be asked because its Secret has no allowed-cidrs; at least 30s. The annotation "+clusterset.TTLAnnotation+" on its Secret takes precedence.")
	flags.StringVar(&o.LostPolicy, "lost-member-policy", o.LostPolicy,
		"What happens to endpoints of a silent member that do not answer or cannot be asked: Withdraw removes them, KeepLast removes them unless an import has no other ready endpoints, Keep keeps them. "+
			"The annotation "+clusterset.LostPolicyAnnotation+" on its Secret takes precedence.")
}

func (o *MemberOptions) validate() []error {
	var errs []error
	for _, problem := range validation.IsDNS1123Label(o.Namespace) {
		errs = append(errs, fmt.Errorf("--namespace %q: %s", o.Namespace, problem))
	}
	if o.TTL < liveness.MinTTL {
		errs = append(errs, fmt.Errorf("--member-ttl %s: must be at least %s, because members are probed every few seconds", o.TTL, liveness.MinTTL))
	}
	if err := clustersetvalidation.ValidateLostPolicy(clusterset.LostPolicy(o.LostPolicy)); err != nil {
		errs = append(errs, fmt.Errorf("--lost-member-policy: %w", err))
	}
	return errs
}

// admissionInitializers returns the initializers of our admission plugins.
func (o *MemberOptions) admissionInitializers(config *genericapiserver.RecommendedConfig) ([]apiserveradmission.PluginInitializer, error) {
	loopback := rest.CopyConfig(config.LoopbackClientConfig)
	loopback.QPS = -1
	client, err := versioned.NewForConfig(loopback)
	if err != nil {
		return nil, fmt.Errorf("create loopback client: %w", err)
	}
	return []apiserveradmission.PluginInitializer{admission.NewInitializer(client, o.Namespace)}, nil
}
