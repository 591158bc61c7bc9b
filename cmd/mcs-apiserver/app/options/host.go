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
)

// HostOptions say where the kube-apiserver is whose API this server extends.
type HostOptions struct {
	Kubeconfig string
}

// AddFlags adds the flags of this group.
func (o *HostOptions) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig,
		"Kubeconfig of the cluster whose API this server extends. Also used for delegated authentication and authorization "+
			"unless these have a kubeconfig of their own. Not needed in a Pod of that cluster.")
}

// shareWith makes one kubeconfig do for everything that asks the host cluster.
func (o *HostOptions) shareWith(recommended *genericoptions.RecommendedOptions) {
	if recommended.Authentication.RemoteKubeConfigFile == "" {
		recommended.Authentication.RemoteKubeConfigFile = o.Kubeconfig
	}
	if recommended.Authorization.RemoteKubeConfigFile == "" {
		recommended.Authorization.RemoteKubeConfigFile = o.Kubeconfig
	}
}

// applyTo gives the server its client and informers. Requests are limited by
// the kube-apiserver's priority and fairness, not a second time here.
func (o *HostOptions) applyTo(config *genericapiserver.RecommendedConfig) error {
	client, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return fmt.Errorf("load the kubeconfig of the host cluster (--kubeconfig): %w", err)
	}
	client.QPS = -1
	client.UserAgent = "mcs-apiserver"
	clientset, err := kubernetes.NewForConfig(client)
	if err != nil {
		return fmt.Errorf("make a client for the host cluster: %w", err)
	}
	config.ClientConfig = client
	config.SharedInformerFactory = informers.NewSharedInformerFactory(clientset, 0)
	return nil
}
