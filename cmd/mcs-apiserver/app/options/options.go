// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package options defines the flags of mcs-apiserver and converts them to a
// server configuration.
package options

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/logs"
	baseversion "k8s.io/component-base/version"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/features"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/admission"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apiserver"
)

// Options holds all flags, by group.
type Options struct {
	ServerRun    *genericoptions.ServerRunOptions
	Recommended  *genericoptions.RecommendedOptions
	Host         *HostOptions
	Storage      *StorageOptions
	Members      *MemberOptions
	ClusterSetIP *ClusterSetIPOptions
	Logs         *logs.Options
}

// New returns options with default values.
func New() *Options {
	// The feature gates of the library follow its Kubernetes release, not our
	// own version.
	compatibility.DefaultComponentGlobalsRegistry.ComponentGlobalsOrRegister(basecompatibility.DefaultKubeComponent,
		basecompatibility.NewEffectiveVersionFromString(baseversion.DefaultKubeBinaryVersion, "", ""),
		utilfeature.DefaultMutableFeatureGate)

	disableCacheInconsistencyDetection()
	recommended := genericoptions.NewRecommendedOptions(defaultEtcdPrefix, nil)
	// Replaced by HostOptions.
	recommended.CoreAPI = nil
	// All connections of this server stay within the host cluster.
	recommended.EgressSelector = nil
	recommended.SecureServing.BindPort = defaultPort
	// A self-signed certificate is kept in memory rather than in the working
	// directory.
	recommended.SecureServing.ServerCert.CertDirectory = ""
	admission.AddTo(recommended.Admission)
	run := genericoptions.NewServerRunOptions()
	// By default, open watches would delay the shutdown by a minute.
	run.ShutdownWatchTerminationGracePeriod = 10 * time.Second
	return &Options{
		ServerRun:    run,
		Recommended:  recommended,
		Host:         &HostOptions{},
		Storage:      newStorageOptions(recommended.Etcd),
		Members:      newMemberOptions(),
		ClusterSetIP: newClusterSetIPOptions(),
		Logs:         logs.NewOptions(),
	}
}

// disableCacheInconsistencyDetection turns the feature gate
// DetectCacheInconsistency off by default. Every few minutes it lists each
// resource from storage and from the watch cache to compare them, which is meant
// for tests. --feature-gates can turn it on.
func disableCacheInconsistencyDetection() {
	gate := utilfeature.DefaultMutableFeatureGate
	if utilfeature.DefaultFeatureGate.Enabled(features.DetectCacheInconsistency) {
		utilruntime.Must(gate.OverrideDefault(features.DetectCacheInconsistency, false))
	}
}

// Flags returns all flags, in sections.
func (o *Options) Flags() cliflag.NamedFlagSets {
	var sections cliflag.NamedFlagSets
	o.Host.AddFlags(sections.FlagSet("host cluster"))
	o.Members.AddFlags(sections.FlagSet("members"))
	o.ClusterSetIP.AddFlags(sections.FlagSet("ClusterSet IP"))
	o.Storage.AddFlags(sections.FlagSet("storage"))
	o.Recommended.SecureServing.AddFlags(sections.FlagSet("serving"))
	o.Recommended.Authentication.AddFlags(sections.FlagSet("authentication"))
	o.Recommended.Authorization.AddFlags(sections.FlagSet("authorization"))
	o.Recommended.Admission.AddFlags(sections.FlagSet("admission"))
	o.Recommended.Audit.AddFlags(sections.FlagSet("audit"))
	o.Recommended.Features.AddFlags(sections.FlagSet("features"))
	o.Recommended.Traces.AddFlags(sections.FlagSet("traces"))
	o.ServerRun.AddUniversalFlags(sections.FlagSet("generic"))
	return sections
}

type completed struct {
	*Options
}

// Completed is returned by Complete only.
type Completed struct {
	*completed
}

// Complete fills in defaults that depend on other options.
func (o *Options) Complete() (Completed, error) {
	// Feature gates are final from here on.
	if err := o.ServerRun.ComponentGlobalsRegistry.Set(); err != nil {
		return Completed{}, err
	}
	o.Host.shareWith(o.Recommended)
	o.Recommended.ExtraAdmissionInitializers = o.Members.admissionInitializers
	o.Storage.complete(o.Recommended)
	if err := o.Recommended.SecureServing.MaybeDefaultWithSelfSignedCerts("localhost", nil, []net.IP{net.IPv4(127, 0, 0, 1)}); err != nil {
		return Completed{}, fmt.Errorf("create self-signed serving certificate: %w", err)
	}
	return Completed{&completed{o}}, nil
}

// Validate returns all errors in the options.
func (o Completed) Validate() error {
	errs := o.Storage.validate()
	if len(errs) == 0 { // otherwise, the flags of etcd cannot be judged
		errs = o.Recommended.Validate()
	}
	errs = append(errs, o.ServerRun.Validate()...)
	errs = append(errs, o.Members.validate()...)
	errs = append(errs, o.ClusterSetIP.validate()...)
	return errors.Join(errs...)
}

// replicaID identifies this replica, also after a restart. It is empty if no other
// replica can use the storage.
func (o Completed) replicaID() (string, error) {
	if o.Storage.Embedded() {
		return "", nil
	}
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("identify this replica: %w", err)
	}
	serving := o.Recommended.SecureServing
	return fmt.Sprintf("%s_%s_%d", host, serving.BindAddress, serving.BindPort), nil
}

// Config returns a server configuration. It requires that the host cluster, and
// etcd if it is used, are available. The caller must close its storage.
func (o Completed) Config(ctx context.Context) (*apiserver.Config, error) {
	if err := awaitCertificate(ctx, o.Recommended.SecureServing); err != nil {
		return nil, err
	}
	config := apiserver.NewConfig()
	config.Namespace, config.MemberTTL, config.LostPolicy = o.Members.Namespace, o.Members.TTL, clusterset.LostPolicy(o.Members.LostPolicy)
	var err error
	if config.ClusterSetIP, err = o.ClusterSetIP.config(); err != nil {
		return nil, err
	}
	if config.ReplicaID, err = o.replicaID(); err != nil {
		return nil, err
	}
	if err := o.ServerRun.ApplyTo(&config.Generic.Config); err != nil {
		return nil, err
	}
	if err := o.Host.applyTo(config.Generic); err != nil {
		return nil, err
	}
	if err := disableUnservedAdmission(ctx, config.Generic.ClientConfig, o.Recommended.Admission); err != nil {
		return nil, err
	}
	if err := o.Recommended.ApplyTo(config.Generic); err != nil {
		return nil, err
	}
	if err := o.Storage.applyTo(ctx, config); err != nil {
		return nil, err
	}
	return config, nil
}
