// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	cliflag "k8s.io/component-base/cli/flag"
	componentbaseconfig "k8s.io/component-base/config"
	componentbaseoptions "k8s.io/component-base/config/options"
	"k8s.io/component-base/logs"

	clustersetvalidation "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/validation"
)

// Options are the flags of mcs-controller.
type Options struct {
	Kubeconfig     string
	Namespace      string
	ServingCertDir string
	ServingCAFile  string
	APIServer      string
	ClusterID      string
	HealthAddress  string
	LeaderElection componentbaseconfig.LeaderElectionConfiguration
	Logs           *logs.Options
}

// NewOptions returns the options with their defaults.
func NewOptions() *Options {
	namespace := os.Getenv("POD_NAMESPACE")
	if namespace == "" {
		namespace = "mcs-system"
	}
	return &Options{
		Namespace:     namespace,
		APIServer:     "https://127.0.0.1:6443",
		HealthAddress: ":8081",
		LeaderElection: componentbaseconfig.LeaderElectionConfiguration{
			LeaderElect:   true,
			LeaseDuration: metav1.Duration{Duration: 15 * time.Second},
			RenewDeadline: metav1.Duration{Duration: 10 * time.Second},
			RetryPeriod:   metav1.Duration{Duration: 2 * time.Second},
			ResourceLock:  "leases",
			ResourceName:  "mcs-controller",
		},
		Logs: logs.NewOptions(),
	}
}

// Flags returns all flags, in sections.
func (o *Options) Flags() cliflag.NamedFlagSets {
	var sections cliflag.NamedFlagSets
	flags := sections.FlagSet("controller")
	flags.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig, "Kubeconfig of the cluster. Not needed in a Pod of that cluster.")
	flags.StringVar(&o.Namespace, "namespace", o.Namespace,
		"Namespace of the installation. Taken from the environment variable POD_NAMESPACE when that is set.")
	flags.StringVar(&o.ServingCertDir, "serving-cert-dir", o.ServingCertDir,
		"Directory for a serving certificate that mcs-controller makes, keeps in a Secret and renews. "+
			"mcs-apiserver serves with the file serving.pem in it, which holds certificate and key; clients trust ca.crt.")
	flags.StringVar(&o.ServingCAFile, "serving-ca-file", o.ServingCAFile,
		"Certificates to trust when talking to mcs-apiserver, if it serves with a certificate that was not made here. "+
			"Takes the place of --serving-cert-dir.")
	flags.StringVar(&o.APIServer, "apiserver", o.APIServer,
		"URL of the mcs-apiserver in the same Pod. It is read past the kube-apiserver, so that what it says is what this Pod knows.")
	flags.StringVar(&o.ClusterID, "cluster-id", o.ClusterID,
		"Id to claim for a cluster that has none, or that has the default one and is in no ClusterSet: one DNS label. "+
			"The default is the UID of the namespace kube-system.")
	flags.StringVar(&o.HealthAddress, "health-address", o.HealthAddress, "Address for /livez and /readyz, without TLS.")
	componentbaseoptions.BindLeaderElectionFlags(&o.LeaderElection, sections.FlagSet("leader election"))
	return sections
}

// Validate returns everything that is wrong with the options.
func (o *Options) Validate() error {
	var errs []error
	if (o.ServingCertDir == "") == (o.ServingCAFile == "") {
		errs = append(errs, errors.New("give either --serving-cert-dir, for a certificate made here, or --serving-ca-file, for one of your own"))
	}
	if server, err := url.Parse(o.APIServer); err != nil || server.Scheme != "https" || server.Host == "" {
		errs = append(errs, fmt.Errorf("--apiserver %q: must be an https URL", o.APIServer))
	}
	if o.ClusterID != "" {
		if invalid := clustersetvalidation.ValidateClusterID(o.ClusterID, field.NewPath("--cluster-id")); len(invalid) > 0 {
			errs = append(errs, invalid.ToAggregate())
		}
	}
	for _, problem := range validation.IsDNS1123Label(o.Namespace) {
		errs = append(errs, fmt.Errorf("--namespace %q: %s", o.Namespace, problem))
	}
	return errors.Join(errs...)
}

// hostConfig is how to talk to the cluster. The kube-apiserver limits requests
// by priority and fairness; there is no second limit here.
func (o *Options) hostConfig() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("load the kubeconfig of the cluster (--kubeconfig): %w", err)
	}
	config.QPS = -1
	config.UserAgent = "mcs-controller"
	return config, nil
}
