// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gather implements `kubectl mcs gather`.
package gather

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/validation"
	componentversion "k8s.io/component-base/version"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/attachment"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/installation"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/printer"
)

const long = `Write a support bundle: what others need to see to find out why a ClusterSet does not work.

For the cluster of every CONTEXT, the bundle contains members, exports, imports, derived
Services and EndpointSlices; the registration of the API, CustomResourceDefinitions of its
groups, admission policies and roles of mcs-apiserver; Deployments, Pods, Events, Leases and
logs of its namespace; the configuration of CoreDNS and kube-proxy; versions, and the findings
of "kubectl mcs doctor". Metrics are not in it.

The bundle contains no data of Secrets, only their names, types and keys. From everything
else, it leaves out what looks like a token, a private key, a password or a kubeconfig. It
does contain names of namespaces, Services and clusters, and IP addresses: look at it before
you pass it on. Only you may read the file.

What could not be read, and why, is in index.txt. The command uses your own permissions, and
changes nothing. Logs have 4 MiB each at most, their end; other files 16 MiB; all of them
256 MiB before compression. A cluster takes 5 minutes at most.

The command exits with 0 if the bundle is written and all clusters could be asked, otherwise
with 1.`

const example = `  # Write a bundle of two clusters to a file in the current directory
  kubectl mcs gather east west

  # Choose the file, and read it
  kubectl mcs gather east west -f bundle.tar.gz
  tar -xOzf bundle.tar.gz bundle/index.txt`

const (
	// readTimeout limits how long one kind of objects may take, unless the user sets a timeout.
	readTimeout = 30 * time.Second
	// clusterTimeout limits how long one cluster may take: others are still to be read.
	clusterTimeout = 5 * time.Minute
	// maxShown limits how many failures are printed.
	maxShown = 5
	// defaultStorage is where mcs-apiserver stores objects unless it is told otherwise.
	defaultStorage = "mcs-storage"
)

type options struct {
	*cluster.Factory
	file      string
	overwrite bool
	// limit is how long one cluster may take.
	limit time.Duration
	// now returns the current time.
	now func() time.Time
}

// NewCommand returns the command gather.
func NewCommand(f *cluster.Factory) *cobra.Command {
	o := &options{Factory: f, limit: clusterTimeout, now: time.Now}
	cmd := &cobra.Command{
		Use:               "gather [CONTEXT...]",
		Short:             "Write a support bundle without secrets",
		Long:              long,
		Example:           example,
		ValidArgsFunction: f.CompleteContexts,
		RunE:              func(cmd *cobra.Command, contexts []string) error { return o.run(cmd.Context(), contexts) },
	}
	cmd.Flags().StringVarP(&o.file, "file", "f", "", "The file to write. The default is mcs-gather-TIME.tar.gz in the current directory.")
	cmd.Flags().BoolVar(&o.overwrite, "overwrite", false, "If true, replace an existing file.")
	return cmd
}

func (o *options) run(ctx context.Context, contexts []string) (err error) {
	if len(contexts) == 0 {
		current, err := o.CurrentContext()
		if err != nil {
			return err
		}
		contexts = []string{current}
	}
	var clusters []*cluster.Cluster
	for _, name := range slices.Compact(slices.Sorted(slices.Values(contexts))) {
		c, err := o.ForContext(name)
		if err != nil {
			return err
		}
		clusters = append(clusters, c)
	}
	now := o.now().UTC()
	if o.file == "" {
		o.file = fmt.Sprintf("mcs-gather-%s.tar.gz", now.Format("20060102-150405"))
	}
	b, err := create(o.file, o.overwrite, now)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil && b != nil {
			b.discard()
		}
	}()
	silent, err := o.gather(ctx, b, clusters)
	if err != nil {
		return err
	}
	failures := b.failures
	if err := b.index(fmt.Sprintf("Bundle of kubectl mcs gather %s, %s\nContexts: %s", componentversion.Get().GitVersion, now.Format(time.RFC3339), strings.Join(contexts, ", "))); err != nil {
		return err
	}
	if err := b.close(); err != nil {
		return err
	}
	b = nil // it is complete
	fmt.Fprintf(o.Streams.Out, "Bundle %s is written. Look at it before you pass it on: it has names of Services and addresses\n", o.file)
	if len(failures) > 0 {
		fmt.Fprintf(o.Streams.Out, "%d items could not be read, or not completely; index.txt in the bundle has all of them:\n", len(failures))
		for _, failure := range failures[:min(maxShown, len(failures))] {
			fmt.Fprintf(o.Streams.Out, "  %s\n", printer.Escape(failure))
		}
	}
	if len(silent) > 0 {
		return fmt.Errorf("%d of %d clusters could not be asked: %s", len(silent), len(clusters), strings.Join(silent, ", "))
	}
	return nil
}

// gather reads everything, and returns the contexts of clusters that do not answer. The error is that
// the bundle cannot be written, or an interrupt.
func (o *options) gather(ctx context.Context, b *bundle, clusters []*cluster.Cluster) (silent []string, err error) {
	used := map[string]bool{}
	for _, c := range clusters {
		r := &reader{options: o, Cluster: c, bundle: b, directory: directoryOf(c.Context, used)}
		if err := r.readAll(ctx); err != nil {
			return nil, err
		}
		if r.silent {
			silent = append(silent, c.Context)
		}
	}
	return silent, nil
}

// readAll reads one cluster, for a limited time.
func (r *reader) readAll(ctx context.Context) error {
	reading, cancel := context.WithTimeout(ctx, r.limit)
	defer cancel()
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{{"read versions", r.versions}, {"read objects", r.objects}, {"read logs", r.pods}, {"run doctor", r.doctor}} {
		if err := r.Progress.Run(r.Context+": "+step.what, func() error { return step.do(reading) }); err != nil {
			return err
		}
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("interrupted: %w", ctx.Err())
		case r.silent:
			return nil
		case reading.Err() != nil:
			r.bundle.failed(r.directory, fmt.Errorf("not everything was read within %s", r.limit))
			return nil
		}
	}
	return nil
}

var unusual = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// directoryOf returns a directory for a context, whose name may contain anything.
func directoryOf(context string, used map[string]bool) string {
	base := strings.Trim(unusual.ReplaceAllString(context, "_"), ".")
	name := base
	for i := 2; name == "" || used[name]; i++ {
		name = fmt.Sprintf("%s_%d", base, i)
	}
	used[name] = true
	return name
}

// reader reads one cluster.
type reader struct {
	*options
	*cluster.Cluster
	bundle    *bundle
	directory string
	namespace string
	// silent is set if the cluster does not answer at all.
	silent bool
}

// add adds a file about the cluster, within a timeout.
func (r *reader) add(ctx context.Context, name string, write func(ctx context.Context, w io.Writer) error) error {
	ctx, cancel, err := r.WithTimeout(ctx, readTimeout)
	defer cancel()
	if err != nil {
		return err
	}
	return r.bundle.add(r.directory+"/"+name, func(w io.Writer) error { return write(ctx, w) })
}

// versions reads the version of Kubernetes, which also shows whether the cluster answers.
func (r *reader) versions(ctx context.Context) error {
	return r.add(ctx, "version.json", func(ctx context.Context, w io.Writer) error {
		body, err := r.Kubernetes.CoreV1().RESTClient().Get().AbsPath("/version").SetHeader("Accept", "application/json").DoRaw(ctx)
		if err != nil {
			r.silent = cluster.IsUnreachable(err) || utilnet.IsTimeout(err) || apierrors.IsUnauthorized(err)
			return cluster.Diagnose(r.Context, err, cluster.KubernetesUserAdvice)
		}
		_, err = io.WriteString(w, redact(string(body)))
		return err
	})
}

// objects reads all kinds of objects.
func (r *reader) objects(ctx context.Context) error {
	r.namespace = attachment.DefaultNamespace
	storage := defaultStorage
	finding, cancel, err := r.WithTimeout(ctx, readTimeout)
	if err != nil {
		cancel()
		return err
	}
	namespace, deployment, err := installation.Find(finding, r.Cluster)
	cancel()
	if namespace != "" {
		r.namespace = namespace
	}
	switch {
	case err != nil:
		r.bundle.failed(r.directory+"/installation", fmt.Errorf("namespace %s is read: %w", r.namespace, err))
	case deployment == nil:
		r.bundle.failed(r.directory+"/installation", fmt.Errorf("there is no Deployment of mcs-apiserver: namespace %s is read", r.namespace))
	default:
		storage = storageOf(deployment)
	}
	for _, kind := range kinds(r.namespace, storage) {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the caller says so
		}
		if err := r.add(ctx, kind.file+".json", func(ctx context.Context, w io.Writer) error {
			return read(ctx, r.Kubernetes.CoreV1().RESTClient(), kind, w)
		}); err != nil {
			return err
		}
	}
	return nil
}

// storageOf returns the namespace in which mcs-apiserver stores objects. It becomes a part of paths, and is
// what the cluster says.
func storageOf(deployment *appsv1.Deployment) string {
	for _, container := range deployment.Spec.Template.Spec.Containers {
		for _, arg := range slices.Concat(container.Command, container.Args) {
			if value, found := strings.CutPrefix(arg, "--storage-namespace="); found && len(validation.IsDNS1123Label(value)) == 0 {
				return value
			}
		}
	}
	return defaultStorage
}
