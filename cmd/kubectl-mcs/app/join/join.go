// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package join implements `kubectl mcs join`.
package join

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/membership"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/printer"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/plan"
)

const long = `Join clusters to a ClusterSet and make every cluster a member of every other.

In each cluster, join creates a service account per peer that can only read what the
cluster exports, and stores a short-lived token for it in a Secret of the peer.
mcs-controller replaces the token immediately and renews it from then on. Finally, the
clusters claim the ClusterSet, each records when the others did, so that none can claim
to be older later, and join waits until they are connected.

The plan is printed first. Steps that are already done are skipped, so that join can
be repeated, and repeated with additional clusters.

The server and the certificate authority in your kubeconfig identify a cluster, not what
it reports about itself. If they differ from those of an existing member with its ID,
nothing is changed without --repoint.

If a step fails, all completed steps are rolled back, except for the cluster ID of a
cluster that had none: an ID cannot be removed. If clusters do not connect before the
timeout, nothing is rolled back, because they have already joined.

With --allowed-cidrs, other clusters know where the Pods of a cluster are: they ignore
endpoints elsewhere and, while the cluster is silent, ask its endpoints whether they answer
before they withdraw them. Without, all of them are withdrawn after the TTL.

With --hub, the other clusters are members of the hub only, and read what the others export
through it: the hub speaks for all of them. To add a cluster later, name all clusters again.
Then give --allowed-cidrs for all clusters or for none: those of the hub hold for what it relays.

With --since, clusters that join count as members since then, so that the age of their
exports decides about precedence as before: for clusters that were in one ClusterSet with
another implementation, see migrate. It requires the permission to date claims, and does not
change the age of clusters that have joined.

With --check, join changes nothing, and prints whether the clusters are ready:
  ✓  the check passed
  !  the clusters can join, but something may not work as expected
  ✗  a problem, which makes the command exit with an error
  ?  not checked, and how to find out
It checks what join checks, the registration of the API, CustomResourceDefinitions that are in
its way, versions, clocks, whether networks overlap, the addresses of the kube-apiservers, the
mode of kube-proxy, and DNS. Whether mcs-apiserver of one cluster reaches the kube-apiserver of
another is only known of members: join waits for it, and status shows it. With one context, it
checks what can be known of that cluster alone, for example before it exchanges invitations.

With --output-dir, join changes nothing in the clusters but that it creates service
accounts and their permissions, and writes what each cluster needs to files, for kubectl
apply, Argo CD or Flux. New tokens in them are valid for --duration at most. Members that
are connected keep the credentials that their Secrets declare.

Join requires cluster-admin permissions in all clusters. To join clusters whose
administrators are not the same, see invite.`

const example = `  # Print the plan without changing anything
  kubectl mcs join --clusterset production east west --dry-run

  # Check whether the clusters are ready to join, or one of them is
  kubectl mcs join --clusterset production east west --check
  kubectl mcs join --clusterset production east --check

  # Join two clusters and set their cluster IDs
  kubectl mcs join --clusterset production east west --id east=east --id west=west

  # Join clusters that reach each other at a different address than your kubeconfig
  kubectl mcs join --clusterset production east west --server east=https://10.0.0.1:6443

  # Set where the Pods of each cluster are, also of clusters that have joined
  kubectl mcs join --clusterset production east west --allowed-cidrs east=10.100.0.0/16 --allowed-cidrs west=10.101.0.0/16,fd00:101::/48

  # Join west and north through the hub east
  kubectl mcs join --clusterset production east west north --hub east

  # Write what each cluster needs to files
  kubectl mcs join --clusterset production east west --output-dir clusters
  kubectl --context east apply -f clusters/east
  kubectl --context west apply -f clusters/west`

type options struct {
	*cluster.Factory
	output                   printer.Output
	clusterSet               string
	ids                      map[string]string
	servers                  map[string]string
	allowedCIDRs             []string
	dryRun                   bool
	check                    bool
	repoint                  bool
	ignoreUnreachableMembers bool
	timeout                  time.Duration
	hub                      string
	since                    string
	outputDir                string
	duration                 time.Duration
}

// NewCommand returns the command join.
func NewCommand(f *cluster.Factory) *cobra.Command {
	o := &options{Factory: f}
	cmd := &cobra.Command{
		Use:     "join --clusterset NAME CONTEXT CONTEXT...",
		Short:   "Join clusters to a ClusterSet",
		Long:    long,
		Example: example,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case o.check && len(args) == 0:
				return errors.New("at least one context is required: `kubectl config get-contexts` lists all contexts")
			case !o.check && len(args) < 2:
				return errors.New("at least two contexts are required: `kubectl config get-contexts` lists all contexts")
			}
			return nil
		},
		ValidArgsFunction: f.CompleteContexts,
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.clusterSet, "clusterset", "", "Name of the ClusterSet, the same for all its members. Required.")
	flags.StringToStringVar(&o.ids, "id", nil, "Cluster ID to set for a context, as CONTEXT=ID. By default, a cluster keeps its ID.")
	flags.StringToStringVar(&o.servers, "server", nil, "Address at which other clusters reach the kube-apiserver of a context, as CONTEXT=URL. By default, the server in the kubeconfig.")
	flags.StringArrayVar(&o.allowedCIDRs, "allowed-cidrs", nil, "CIDRs that contain the Pod IPs of a context, as CONTEXT=CIDR,... Other clusters ignore endpoints outside of them, and ask those inside whether they answer before they withdraw them. Can be repeated. By default, member Secrets keep what they have.")
	flags.BoolVar(&o.dryRun, "dry-run", false, "If true, only print the plan, without changing anything.")
	flags.BoolVar(&o.check, "check", false, "If true, only check whether the clusters are ready to join, without changing anything.")
	flags.BoolVar(&o.repoint, "repoint", false, "If true, existing members may get another server address or certificate authority.")
	flags.BoolVar(&o.ignoreUnreachableMembers, "ignore-unreachable-members", false, "If true, join although not every member can be asked whether a cluster ID is in use.")
	flags.DurationVar(&o.timeout, "timeout", time.Minute, "The length of time to wait until the clusters are connected.")
	flags.StringVar(&o.hub, "hub", "", "Context of the cluster through which the others read each other. By default, every cluster is a member of every other.")
	flags.StringVar(&o.since, "since", "", "Time since which clusters that join count as members, such as 2025-01-31T08:00:00Z, if they were in one ClusterSet with another implementation. By default, now.")
	flags.StringVar(&o.outputDir, "output-dir", "", "Directory in which what each cluster needs is written, in a directory by its cluster ID, for nobody else to read, but on Windows for all who can read the directory. Nothing but access is created in the clusters.")
	flags.DurationVar(&o.duration, "duration", membership.BootstrapLifetime, "With --output-dir, how long new tokens in the files are valid, at most: clusters may issue tokens for a shorter time.")
	o.output.AddTo(cmd)
	for _, err := range []error{cmd.MarkFlagRequired("clusterset"), cmd.MarkFlagDirname("output-dir"), cmd.RegisterFlagCompletionFunc("hub", f.CompleteFlagContext)} {
		if err != nil {
			panic(err) // the flag does not exist
		}
	}
	return cmd
}

func (o *options) run(ctx context.Context, contexts []string) error {
	allowed, err := parseAllowedCIDRs(o.allowedCIDRs, contexts)
	if err := errors.Join(o.validate(contexts), err); err != nil {
		return err
	}
	if o.check {
		return o.checkOnly(ctx, contexts, allowed)
	}
	clusters, err := membership.Observe(ctx, o.Factory, contexts, o.servers)
	if err != nil {
		return err
	}
	if err := membership.ObserveSharedIPs(ctx, o.Factory, clusters); err != nil {
		return err
	}
	observed := membership.Observed(clusters)
	for i := range observed {
		observed[i].AllowedCIDRs = strings.Join(allowed[observed[i].Context], ",")
		observed[i].Since = o.since
		observed[i].Hub, observed[i].Flags = observed[i].Context == o.hub, o.given(observed[i].Context, i == 0)
	}
	planned, err := plan.Join(o.clusterSet, observed, o.ids)
	if err == nil && !o.repoint {
		err = plan.CheckRepointing(observed, o.ids)
	}
	if err != nil {
		return fmt.Errorf("the clusters cannot be joined, and nothing was changed:\n%w", err)
	}
	if o.outputDir != "" {
		return o.writeFiles(ctx, clusters, observed, planned)
	}
	nothing := fmt.Sprintf("All clusters are already members of ClusterSet %q.", o.clusterSet)
	if done, err := membership.PrintPlan(o.Factory, planned, o.output, o.dryRun, nothing); done || err != nil {
		return err
	}
	execution := membership.NewExecution(clusters, o.Progress)
	execution.Timeout, execution.IgnoreUnreachableMembers = o.timeout, o.ignoreUnreachableMembers
	waits := slices.IndexFunc(planned.Steps, func(step plan.Step) bool { return step.Action == plan.WaitForMembers })
	if err := execution.Run(ctx, planned.Steps[:waits]); err != nil {
		return execution.RollBack(ctx, err)
	}
	if err := execution.Run(ctx, planned.Steps[waits:]); err != nil {
		return fmt.Errorf("the clusters joined ClusterSet %q, but are not connected yet: %w\n"+
			"nothing was rolled back: `kubectl mcs status` shows the state of the members; "+
			"if a cluster is not reachable at the address that it was given, run join again with the right one, --server CONTEXT=URL, and --repoint", o.clusterSet, err)
	}
	fmt.Fprintf(o.Streams.Out, "All %d clusters are members of ClusterSet %q.\n", len(clusters), o.clusterSet)
	if delay := plan.RelayDelay(planned); delay != "" {
		fmt.Fprintln(o.Streams.Out, delay)
	}
	membership.PrintNotes(o.Factory, planned)
	return nil
}

// given returns flags that the user gave for a context, and those for all, once.
func (o *options) given(context string, first bool) []string {
	var flags []string
	if server := o.servers[context]; server != "" {
		flags = append(flags, fmt.Sprintf("--server %s=%s", context, server))
	}
	if first && o.since != "" {
		flags = append(flags, "--since "+o.since)
	}
	if first && o.outputDir != "" {
		flags = append(flags, "--output-dir "+o.outputDir)
	}
	return flags
}

func (o *options) validate(contexts []string) error {
	var err error
	if o.since, err = parseSince(o.since, time.Now()); err != nil {
		return err
	}
	errs := []error{o.output.ValidatePlan(o.dryRun || o.check), checkContexts("--id", o.ids, contexts), checkContexts("--server", o.servers, contexts)}
	if o.clusterSet == "" {
		errs = append(errs, errors.New("--clusterset must not be empty"))
	}
	if o.timeout <= 0 {
		errs = append(errs, fmt.Errorf("--timeout %s: must be greater than zero", o.timeout))
	}
	if o.hub != "" && !slices.Contains(contexts, o.hub) {
		errs = append(errs, fmt.Errorf("--hub %s: the context is not among the arguments", o.hub))
	}
	if o.outputDir == "" && o.duration != membership.BootstrapLifetime {
		errs = append(errs, errors.New("--duration has no effect without --output-dir: remove it, or add --output-dir"))
	}
	if o.outputDir != "" {
		errs = append(errs, membership.ValidateLifetime(o.duration))
		for flag, set := range map[string]bool{"--output": o.output.Format != "", "--ignore-unreachable-members": o.ignoreUnreachableMembers} {
			if set {
				errs = append(errs, fmt.Errorf("%s has no effect with --output-dir: remove one of them", flag))
			}
		}
	}
	if o.check {
		for flag, set := range map[string]bool{"--dry-run": o.dryRun, "--output-dir": o.outputDir != ""} {
			if set {
				errs = append(errs, fmt.Errorf("%s has no effect with --check: remove one of them", flag))
			}
		}
	}
	for i, context := range contexts {
		if slices.Contains(contexts[:i], context) {
			errs = append(errs, fmt.Errorf("context %q is given more than once", context))
		}
	}
	return errors.Join(errs...)
}

// parseSince returns a time of the past in its usual form, empty if there is none.
func parseSince(text string, now time.Time) (string, error) {
	if text == "" {
		return "", nil
	}
	at, err := time.Parse(time.RFC3339, text)
	switch {
	case err != nil:
		return "", fmt.Errorf("--since %s: must be a time of the form 2006-01-02T15:04:05Z", text)
	case at.After(now):
		return "", fmt.Errorf("--since %s: must not be in the future", text)
	case at.Before(time.Unix(0, 0)):
		return "", fmt.Errorf("--since %s: must be after 1970", text)
	}
	return at.UTC().Truncate(time.Second).Format(time.RFC3339), nil
}

// parseAllowedCIDRs returns the CIDRs of each context. A context may be given several times.
func parseAllowedCIDRs(values, contexts []string) (map[string][]string, error) {
	allowed := map[string][]string{}
	var errs []error
	for _, value := range values {
		context, list, found := strings.Cut(value, "=")
		if !found || list == "" {
			errs = append(errs, fmt.Errorf("--allowed-cidrs %s: must be of the form CONTEXT=CIDR,..., such as west=10.101.0.0/16", value))
			continue
		}
		errs = append(errs, checkContexts("--allowed-cidrs", map[string]string{context: list}, contexts))
		cidrs, invalid := plan.ParseAllowedCIDRs(list)
		for _, err := range invalid {
			errs = append(errs, fmt.Errorf("--allowed-cidrs %s: %w", value, err))
		}
		allowed[context] = append(allowed[context], cidrs...)
	}
	return allowed, errors.Join(errs...)
}

// checkContexts returns an error for values of contexts that are not arguments.
func checkContexts(flag string, values map[string]string, contexts []string) error {
	var errs []error
	for context, value := range values {
		if !slices.Contains(contexts, context) {
			errs = append(errs, fmt.Errorf("%s %s=%s: context %q is not among the arguments", flag, context, value, context))
		}
	}
	return errors.Join(errs...)
}
