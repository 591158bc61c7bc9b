// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package options holds the flags of mcs-apiserver and turns them into a
// server configuration.
package options

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/logs"
	baseversion "k8s.io/component-base/version"

	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/admission"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apiserver"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/etcd"
)

// Options are the flags, a group each.
type Options struct {
	ServerRun   *genericoptions.ServerRunOptions
	Recommended *genericoptions.RecommendedOptions
	Host        *HostOptions
	Storage     *StorageOptions
	Members     *MemberOptions
	ClusterSet  *ClusterSetIPOptions
	Logs        *logs.Options
}

// New returns the options with their defaults.
func New() *Options {
	// The library's features are those of the Kubernetes release it comes from,
	// whatever our own version is.
	compatibility.DefaultComponentGlobalsRegistry.ComponentGlobalsOrRegister(basecompatibility.DefaultKubeComponent,
		basecompatibility.NewEffectiveVersionFromString(baseversion.DefaultKubeBinaryVersion, "", ""),
		utilfeature.DefaultMutableFeatureGate)

	recommended := genericoptions.NewRecommendedOptions(defaultEtcdPrefix, nil)
	// Replaced by HostOptions.
	recommended.CoreAPI = nil
	// Everything that this server calls is in its own cluster: there is nothing
	// to select an egress for.
	recommended.EgressSelector = nil
	recommended.SecureServing.BindPort = defaultPort
	// A certificate that nobody gave us is made in memory, not in whatever
	// directory the server happens to be started in.
	recommended.SecureServing.ServerCert.CertDirectory = ""
	admission.AddTo(recommended.Admission)
	run := genericoptions.NewServerRunOptions()
	// Without it, open watches hold up the shutdown for a whole minute.
	run.ShutdownWatchTerminationGracePeriod = 10 * time.Second
	return &Options{
		ServerRun:   run,
		Recommended: recommended,
		Host:        &HostOptions{},
		Storage:     &StorageOptions{DataDir: defaultDataDir},
		Members:     newMemberOptions(),
		ClusterSet:  newClusterSetIPOptions(),
		Logs:        logs.NewOptions(),
	}
}

// Flags returns all flags, in sections.
func (o *Options) Flags() cliflag.NamedFlagSets {
	var sections cliflag.NamedFlagSets
	o.Host.AddFlags(sections.FlagSet("host cluster"))
	o.Members.AddFlags(sections.FlagSet("members"))
	o.ClusterSet.AddFlags(sections.FlagSet("clusterset IP"))
	o.Storage.AddFlags(sections.FlagSet("storage"))
	o.Recommended.Etcd.AddFlags(sections.FlagSet("storage"))
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

// Completed options can only be had from Complete.
type Completed struct {
	*completed
}

// Complete derives what was not given.
func (o *Options) Complete() (Completed, error) {
	// Feature gates are final from here on.
	if err := o.ServerRun.ComponentGlobalsRegistry.Set(); err != nil {
		return Completed{}, err
	}
	o.Host.shareWith(o.Recommended)
	o.Recommended.ExtraAdmissionInitializers = o.Members.admissionInitializers
	o.Storage.complete(o.Recommended.Etcd)
	if err := o.Recommended.SecureServing.MaybeDefaultWithSelfSignedCerts("localhost", nil, []net.IP{net.IPv4(127, 0, 0, 1)}); err != nil {
		return Completed{}, fmt.Errorf("make a self-signed serving certificate: %w", err)
	}
	return Completed{&completed{o}}, nil
}

// Validate returns everything that is wrong with the options.
func (o Completed) Validate() error {
	errs := o.ServerRun.Validate()
	errs = append(errs, o.Recommended.Validate()...)
	errs = append(errs, o.Storage.validate()...)
	errs = append(errs, o.Members.validate()...)
	errs = append(errs, o.ClusterSet.validate()...)
	return errors.Join(errs...)
}

// Config makes a server configuration of the options. It needs the storage
// and the host cluster to be there, and says which of them is not.
func (o Completed) Config(ctx context.Context) (*apiserver.Config, error) {
	if err := awaitCertificate(ctx, o.Recommended.SecureServing); err != nil {
		return nil, err
	}
	client, err := etcd.Connect(ctx, o.Recommended.Etcd.StorageConfig.Transport)
	if err != nil {
		return nil, err
	}
	if err := etcd.CheckVersion(ctx, client); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	config := apiserver.NewConfig()
	config.Etcd, config.EtcdPrefix = client, o.Recommended.Etcd.StorageConfig.Prefix
	config.Namespace, config.MemberTTL, config.LostPolicy = o.Members.Namespace, o.Members.TTL, clusterset.LostPolicy(o.Members.LostPolicy)
	if config.ClusterSetIP, err = o.ClusterSet.config(); err != nil {
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
	return config, nil
}
