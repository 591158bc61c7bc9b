// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"fmt"

	"github.com/spf13/pflag"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/patience"
)

// HostOptions configures the access to the host cluster, whose API this server
// extends.
type HostOptions struct {
	Kubeconfig string
}

// AddFlags adds the flags of this group.
func (o *HostOptions) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig,
		"Kubeconfig of the host cluster, whose API this server extends. Also used for delegated authentication and authorization "+
			"unless they have their own. Not required in a Pod of the host cluster.")
}

// shareWith uses the kubeconfig for delegated authentication and authorization.
func (o *HostOptions) shareWith(recommended *genericoptions.RecommendedOptions) {
	if recommended.Authentication.RemoteKubeConfigFile == "" {
		recommended.Authentication.RemoteKubeConfigFile = o.Kubeconfig
	}
	if recommended.Authorization.RemoteKubeConfigFile == "" {
		recommended.Authorization.RemoteKubeConfigFile = o.Kubeconfig
	}
}

// applyTo sets the client and the informers of the server. The client is not rate
// limited: API priority and fairness of the kube-apiserver does that.
func (o *HostOptions) applyTo(config *genericapiserver.RecommendedConfig) error {
	client, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return fmt.Errorf("load kubeconfig of the host cluster (--kubeconfig): %w", err)
	}
	client.QPS = -1
	client.UserAgent = "mcs-apiserver"
	// Other informers of the same cluster report why it is away.
	informed, err := patience.NewForConfig(client, func(error) {}, kubernetes.NewForConfigAndClient)
	if err != nil {
		return fmt.Errorf("create client for the host cluster: %w", err)
	}
	config.ClientConfig = client
	config.SharedInformerFactory = informers.NewSharedInformerFactory(informed, 0)
	return nil
}
