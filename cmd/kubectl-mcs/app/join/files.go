// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/manifest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/membership"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/printer"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/plan"
)

// writeFiles writes what the clusters have when the plan is carried out to files, instead of
// carrying it out. Only access is granted, because a token needs a service account.
func (o *options) writeFiles(ctx context.Context, clusters []*membership.Cluster, observed []plan.Cluster, planned plan.Plan) error {
	declarations := plan.Declare(planned, o.clusterSet, observed, o.ids, time.Now())
	files, err := o.files(declarations, clusters)
	if err != nil {
		return err
	}
	granting := slices.DeleteFunc(slices.Clone(planned.Steps), func(step plan.Step) bool { return step.Action != plan.GrantAccess })
	o.printFiles(planned, granting, files)
	if o.dryRun {
		return nil
	}
	if err := manifest.Check(files); err != nil {
		return err
	}
	execution := membership.NewExecution(clusters, o.Progress)
	if err := execution.Run(ctx, granting); err != nil {
		return execution.RollBack(ctx, err)
	}
	expires, err := o.createTokens(ctx, clusters, declarations)
	if err == nil {
		files, err = o.files(declarations, clusters)
	}
	if err == nil {
		err = manifest.Write(files)
	}
	if err != nil {
		return execution.RollBack(ctx, err)
	}
	o.explainFiles(declarations, files, expires)
	membership.PrintNotes(o.Factory, planned)
	return nil
}

// files returns the files of all clusters. kubectl applies them in the order of their names:
// claims are checked with all members, and the one for the ClusterSet needs the ID.
func (o *options) files(declarations []plan.Declaration, clusters []*membership.Cluster) ([]manifest.File, error) {
	var files []manifest.File
	for i, declaration := range declarations {
		namespace := clusters[i].Namespace
		add := func(name, title string, objects ...runtime.Object) {
			files = append(files, manifest.File{
				Path:  filepath.Join(o.outputDir, declaration.ID, name),
				Title: fmt.Sprintf("%s in cluster %s, written by kubectl mcs join.", title, declaration.ID), Objects: objects,
			})
		}
		for _, member := range declaration.Members {
			objects := plan.NewPeerAccess(namespace, member.ID).Objects()
			if slices.Contains(declaration.Relays, member.ID) {
				objects = append(objects, plan.NewRelayBinding(namespace, member.ID))
			}
			add("1-access-"+member.ID+".yaml", "Access of cluster "+member.ID, objects...)
		}
		for _, member := range declaration.Members {
			secret, err := plan.NewMemberSecret(namespace, member)
			if err != nil {
				return nil, err
			}
			add(memberFile(member.ID), "Member "+member.ID, secret)
		}
		add("3-id.yaml", "Cluster ID", declaration.IDClaim())
		add("4-clusterset.yaml", "ClusterSet", declaration.ClusterSetClaims()...)
	}
	return files, nil
}

// createTokens adds tokens to all declarations, for members that do not keep theirs. It returns
// when the first of them expires, and the zero time without any.
func (o *options) createTokens(ctx context.Context, clusters []*membership.Cluster, declarations []plan.Declaration) (expires time.Time, err error) {
	for i, declaration := range declarations {
		for j := range declaration.Members {
			member := &declarations[i].Members[j]
			if member.Kubeconfig != nil {
				continue
			}
			issuer := slices.IndexFunc(declarations, func(other plan.Declaration) bool { return other.ID == member.ID })
			var until time.Time
			if member.Token, until, err = clusters[issuer].PeerToken(ctx, declaration.ID, o.duration); err != nil {
				return time.Time{}, err
			}
			if expires.IsZero() || until.Before(expires) {
				expires = until
			}
		}
	}
	return expires, nil
}

// printFiles prints what is going to be done.
func (o *options) printFiles(planned plan.Plan, granting []plan.Step, files []manifest.File) {
	membership.PrintWarnings(o.Factory, planned)
	fmt.Fprintln(o.Streams.Out, "Plan:")
	for _, step := range granting {
		fmt.Fprintf(o.Streams.Out, "  %s: %s\n", step.Context, printer.Escape(step.String()))
	}
	for _, file := range files {
		fmt.Fprintf(o.Streams.Out, "  write %s\n", file.Path)
	}
	if !o.dryRun { // the progress follows
		fmt.Fprintln(o.Streams.Out)
		return
	}
	membership.PrintNotes(o.Factory, planned)
}

// explainFiles says what to do with the files, and for how long that is possible.
func (o *options) explainFiles(declarations []plan.Declaration, files []manifest.File, expires time.Time) {
	fmt.Fprintf(o.Streams.Out, "Wrote %d files. Apply those of each cluster with kubectl, Argo CD or Flux:\n", len(files))
	for _, declaration := range declarations {
		directory := filepath.Join(o.outputDir, declaration.ID)
		fmt.Fprintf(o.Streams.Out, "  kubectl --context %s apply -f %s\n", declaration.Context, directory)
		if others, err := manifest.Others(directory, files); err == nil && len(others) > 0 {
			fmt.Fprintf(o.Streams.ErrOut, "Warning: %s has other files, which kubectl applies, too: %s\n", directory, strings.Join(others, ", "))
		}
	}
	fmt.Fprintf(o.Streams.Out, "The files 2-member-*.yaml contain credentials: keep them secret. ")
	if created := o.memberFiles(declarations, func(member plan.Membership) bool { return member.Kubeconfig == nil }); len(created) > 0 {
		fmt.Fprintf(o.Streams.Out, "These have new ones, which must be applied before %s, and are exchanged at first contact: %s. ", expires.UTC().Format(time.RFC3339), strings.Join(created, ", "))
	}
	if kept := o.memberFiles(declarations, func(member plan.Membership) bool { return member.Kubeconfig != nil }); len(kept) > 0 {
		fmt.Fprintf(o.Streams.Out, "These have what the member Secrets declare already: %s. ", strings.Join(kept, ", "))
	}
	fmt.Fprintln(o.Streams.Out, "Renewed credentials are in Secrets named *.renewed in the clusters, and never written back to files.")
}

// memberFiles returns the files of some members.
func (o *options) memberFiles(declarations []plan.Declaration, selected func(plan.Membership) bool) []string {
	var paths []string
	for _, declaration := range declarations {
		for _, member := range declaration.Members {
			if selected(member) {
				paths = append(paths, filepath.Join(o.outputDir, declaration.ID, memberFile(member.ID)))
			}
		}
	}
	return paths
}

// memberFile is the name of the file with the Secret of a member.
func memberFile(id string) string { return "2-member-" + id + ".yaml" }
