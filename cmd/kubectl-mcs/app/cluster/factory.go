// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/printer"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/progress"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
)

// Factory connects to clusters according to the flags that all commands share.
type Factory struct {
	Flags *genericclioptions.ConfigFlags
	// Changed reports whether the user set a flag.
	Changed func(flag string) bool
	// Streams escape control characters.
	Streams genericiooptions.IOStreams
	// Progress shows steps that take time.
	Progress *progress.Progress
	// Warnings prints the warnings of all servers.
	Warnings rest.WarningHandler
}

// NewFactory returns a factory for commands that print to these streams.
func NewFactory(streams genericiooptions.IOStreams) *Factory {
	f := &Factory{Flags: ConfigFlags(), Progress: progress.New(streams.Out)}
	f.Streams = genericiooptions.IOStreams{In: streams.In, Out: printer.NewWriter(streams.Out), ErrOut: printer.NewWriter(streams.ErrOut)}
	f.Warnings = rest.NewWarningWriter(f.Progress.Beside(f.Streams.ErrOut), rest.WarningWriterOptions{Deduplicate: true})
	return f
}

// ConfigFlags returns the flags of kubectl that apply to commands about several
// clusters. Flags for the address and the credentials of one cluster do not.
func ConfigFlags() *genericclioptions.ConfigFlags {
	flags := genericclioptions.NewConfigFlags(false)
	return &genericclioptions.ConfigFlags{
		KubeConfig: flags.KubeConfig, Context: flags.Context, Namespace: flags.Namespace, Timeout: flags.Timeout,
		Impersonate: flags.Impersonate, ImpersonateUID: flags.ImpersonateUID, ImpersonateGroup: flags.ImpersonateGroup,
	}
}

// kubeconfig returns the kubeconfig that is merged from all files.
func (f *Factory) kubeconfig() (clientcmdapi.Config, error) {
	return f.Flags.ToRawKubeConfigLoader().RawConfig()
}

// CurrentContext returns the context of the flag --context, or the current
// context of the kubeconfig.
func (f *Factory) CurrentContext() (string, error) {
	if *f.Flags.Context != "" {
		return *f.Flags.Context, nil
	}
	config, err := f.kubeconfig()
	if err != nil {
		return "", err
	}
	if config.CurrentContext == "" {
		return "", errors.New("current-context is not set in the kubeconfig: use --context or `kubectl config use-context`")
	}
	return config.CurrentContext, nil
}

// RequestTimeout returns the value of the flag --request-timeout, or the default
// if the user did not set it.
func (f *Factory) RequestTimeout(defaultTimeout time.Duration) (time.Duration, error) {
	if !f.Changed(clientcmd.FlagTimeout) {
		return defaultTimeout, nil
	}
	timeout, err := clientcmd.ParseTimeout(*f.Flags.Timeout)
	if err != nil {
		return 0, fmt.Errorf("--%s %q: %w", clientcmd.FlagTimeout, *f.Flags.Timeout, err)
	}
	return timeout, nil
}

// WithTimeout limits the duration of several requests, unless the user set
// --request-timeout: clients apply that to each request.
func (f *Factory) WithTimeout(ctx context.Context, defaultTimeout time.Duration) (context.Context, context.CancelFunc, error) {
	timeout, err := f.RequestTimeout(defaultTimeout)
	if f.Changed(clientcmd.FlagTimeout) {
		timeout = 0
	}
	ctx, cancel := watchtools.ContextWithOptionalTimeout(ctx, timeout)
	return ctx, cancel, err
}

// NoContextError is the error for a context that is not in the kubeconfig.
type NoContextError struct{ Context string }

func (e *NoContextError) Error() string {
	return fmt.Sprintf("context %q does not exist in the kubeconfig: `kubectl config get-contexts` lists all contexts", e.Context)
}

// ForContext returns the cluster of a context without sending requests. The
// error is a NoContextError if the context does not exist.
func (f *Factory) ForContext(context string) (*Cluster, error) {
	config, err := f.kubeconfig()
	if err != nil {
		return nil, err
	}
	if config.Contexts[context] == nil {
		return nil, &NoContextError{context}
	}
	overrides := clientcmd.ConfigOverrides{Timeout: *f.Flags.Timeout, AuthInfo: clientcmdapi.AuthInfo{
		Impersonate: *f.Flags.Impersonate, ImpersonateUID: *f.Flags.ImpersonateUID, ImpersonateGroups: *f.Flags.ImpersonateGroup,
	}}
	loaded, err := clientcmd.NewNonInteractiveClientConfig(config, context, &overrides, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("context %q: %w", context, err)
	}
	loaded.QPS = -1
	loaded.UserAgent = "kubectl-mcs"
	loaded.WarningHandler = f.Warnings
	RefuseRedirects(loaded)
	c := &Cluster{Context: context, Config: loaded}
	if c.Kubernetes, err = kubernetes.NewForConfig(loaded); err != nil {
		return nil, fmt.Errorf("context %q: %w", context, err)
	}
	if c.MCS, err = versioned.NewForConfig(loaded); err != nil {
		return nil, fmt.Errorf("context %q: %w", context, err)
	}
	return c, nil
}

// Current returns the cluster and the namespace of the current context.
func (f *Factory) Current() (*Cluster, string, error) {
	context, err := f.CurrentContext()
	if err != nil {
		return nil, "", err
	}
	c, err := f.ForContext(context)
	if err != nil {
		return nil, "", err
	}
	namespace, _, err := f.Flags.ToRawKubeConfigLoader().Namespace()
	return c, namespace, err
}
