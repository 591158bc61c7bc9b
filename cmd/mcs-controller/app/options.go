// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
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
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/leadership"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/preference"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/configmap"
)

// Options are the flags of mcs-controller.
type Options struct {
	Kubeconfig       string
	Namespace        string
	StorageNamespace string
	ServingCertDir   string
	ServingCAFile    string
	APIServer        string
	ClusterID        string
	PublishCRDs      bool
	TakeOverProps    bool
	// PreferenceBy is how kube-proxy is told which clusters answer.
	PreferenceBy   string
	HealthAddress  string
	MetricsAddress string
	Profiling      bool
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
		Namespace:        namespace,
		StorageNamespace: "mcs-storage",
		APIServer:        "https://127.0.0.1:6443",
		PreferenceBy:     string(preference.Auto),
		HealthAddress:    ":8081",
		MetricsAddress:   ":8443",
		Profiling:        true,
		LeaderElection: componentbaseconfig.LeaderElectionConfiguration{
			LeaderElect: true,
			// Shorter than usual: giving up the Lease costs little, because the process
			// and its caches remain. Others watch the Lease, and take over when it expires.
			LeaseDuration: metav1.Duration{Duration: 3 * time.Second},
			RenewDeadline: metav1.Duration{Duration: 1500 * time.Millisecond},
			RetryPeriod:   metav1.Duration{Duration: 400 * time.Millisecond},
			ResourceLock:  "leases",
			ResourceName:  "mcs-controller",
		},
		Logs: logs.NewOptions(),
	}
}

// Flags returns all flags in sections.
func (o *Options) Flags() cliflag.NamedFlagSets {
	var sections cliflag.NamedFlagSets
	flags := sections.FlagSet("controller")
	flags.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig, "Path to the kubeconfig of the cluster. Not required in a Pod of that cluster.")
	flags.StringVar(&o.Namespace, "namespace", o.Namespace,
		"Namespace of the installation. Defaults to the environment variable POD_NAMESPACE if it is set.")
	flags.StringVar(&o.StorageNamespace, "storage-namespace", o.StorageNamespace,
		"Namespace in which mcs-apiserver stores its objects. mcs-controller creates it and never deletes it. "+
			"May be empty if mcs-apiserver does not use --storage=cluster.")
	flags.StringVar(&o.ServingCertDir, "serving-cert-dir", o.ServingCertDir,
		"Directory of a serving certificate that mcs-controller creates, stores in a Secret and renews. "+
			"The file serving.pem contains certificate and key for mcs-apiserver, the file ca.crt the CA bundle for its clients.")
	flags.StringVar(&o.ServingCAFile, "serving-ca-file", o.ServingCAFile,
		"Path to the CA bundle that verifies mcs-apiserver, if its serving certificate is not created by mcs-controller. "+
			"Changes of the file are noticed, and CAs that were registered are trusted until they expire. Mutually exclusive with --serving-cert-dir.")
	flags.StringVar(&o.APIServer, "apiserver", o.APIServer,
		"URL of the mcs-apiserver in the same Pod. Requests to it bypass the kube-apiserver.")
	flags.StringVar(&o.ClusterID, "cluster-id", o.ClusterID,
		"Cluster ID to set if the cluster has no ID, or has the default ID and is not in a ClusterSet. Must be a DNS label. "+
			"Defaults to the UID of the namespace kube-system.")
	flags.BoolVar(&o.PublishCRDs, "publish-crds", o.PublishCRDs,
		"Publish CustomResourceDefinitions of ServiceExports and ServiceImports, for programs that wait for them before they use the API. "+
			"They are inert: all requests are served by mcs-apiserver. If false, CustomResourceDefinitions that were published are deleted.")
	flags.BoolVar(&o.TakeOverProps, "take-over-cluster-properties", o.TakeOverProps,
		"Serve ClusterProperties of about.k8s.io/v1beta1 although a CustomResourceDefinition does, whose objects are hidden then. "+
			"If false, they are left to the CustomResourceDefinition whenever there is one.")
	flags.StringVar(&o.PreferenceBy, "preference-by", o.PreferenceBy,
		"How kube-proxy is told which clusters are preferred. \"hints\" uses topology hints, which need zones on all nodes, and fall back without delay if all "+
			"endpoints of the preferred clusters fail. \"detach\" uses the label of headless Services on EndpointSlices, for proxies that do not honor hints. "+
			"\"auto\" is hints if all nodes have zones, and detach otherwise.")
	flags.StringVar(&o.HealthAddress, "health-address", o.HealthAddress, "Address on which /livez and /readyz are served without TLS.")
	flags.StringVar(&o.MetricsAddress, "metrics-address", o.MetricsAddress,
		"Address on which /metrics is served with TLS, to users that the cluster authorizes to get it. "+
			"The certificate is that of --serving-cert-dir, or self-signed without it. Empty to not serve metrics.")
	flags.BoolVar(&o.Profiling, "profiling", o.Profiling,
		"Serve profiles below /debug/pprof/ at --metrics-address, to users that the cluster authorizes to get them.")
	componentbaseoptions.BindLeaderElectionFlags(&o.LeaderElection, sections.FlagSet("leader election"))
	return sections
}

// Validate returns all errors of the options.
func (o *Options) Validate() error {
	var errs []error
	if (o.ServingCertDir == "") == (o.ServingCAFile == "") {
		errs = append(errs, errors.New("exactly one of --serving-cert-dir and --serving-ca-file is required"))
	}
	if server, err := url.Parse(o.APIServer); err != nil || server.Scheme != "https" || server.Host == "" {
		errs = append(errs, fmt.Errorf("--apiserver %q: must be an https URL", o.APIServer))
	}
	if o.ClusterID != "" {
		if invalid := clustersetvalidation.ValidateClusterID(o.ClusterID, field.NewPath("--cluster-id")); len(invalid) > 0 {
			errs = append(errs, invalid.ToAggregate())
		}
	}
	if !slices.Contains(preference.Methods, preference.Method(o.PreferenceBy)) {
		errs = append(errs, fmt.Errorf("--preference-by %q: must be one of %s", o.PreferenceBy, strings.Trim(fmt.Sprint(preference.Methods), "[]")))
	}
	for _, problem := range validation.IsDNS1123Label(o.Namespace) {
		errs = append(errs, fmt.Errorf("--namespace %q: %s", o.Namespace, problem))
	}
	if o.StorageNamespace != "" {
		if err := configmap.ValidateNamespace(o.StorageNamespace); err != nil {
			errs = append(errs, fmt.Errorf("--storage-namespace %q: %w", o.StorageNamespace, err))
		}
	}
	if o.StorageNamespace == o.Namespace {
		errs = append(errs, fmt.Errorf("--storage-namespace %q: must not be the namespace of the installation, which is deleted when mcs-apiserver is uninstalled", o.StorageNamespace))
	}
	if err := o.timing().Validate(); err != nil && o.LeaderElection.LeaderElect {
		errs = append(errs, fmt.Errorf("--leader-elect-lease-duration, --leader-elect-renew-deadline, --leader-elect-retry-period: %w", err))
	}
	return errors.Join(errs...)
}

// timing returns the timing of the Lease for materialization.
func (o *Options) timing() leadership.Timing {
	return leadership.Timing{
		LeaseDuration: o.LeaderElection.LeaseDuration.Duration,
		RenewDeadline: o.LeaderElection.RenewDeadline.Duration,
		RetryPeriod:   o.LeaderElection.RetryPeriod.Duration,
	}
}

// hostConfig returns the client configuration for the cluster. It has no client-side rate
// limit: the kube-apiserver limits requests by priority and fairness.
func (o *Options) hostConfig() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("load kubeconfig of the cluster (--kubeconfig): %w", err)
	}
	config.QPS = -1
	config.UserAgent = "mcs-controller"
	config.Wrap(countWrites)
	return config, nil
}
