// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/printer"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apiconflict"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/crdmigration"
)

// lastCheckTimeout is how long imports may take to exist while changes are refused.
const lastCheckTimeout = 10 * time.Second

// checkLosses returns an error if objects would vanish.
func (o *options) checkLosses(ctx context.Context, sites []*site) error {
	count := 0
	for _, s := range sites {
		losses, err := o.losses(ctx, s, o.timeout)
		if err != nil {
			return err
		}
		for _, loss := range losses {
			fmt.Fprintf(o.Streams.Out, "%s: %s\n", s.Context, printer.Escape(loss))
		}
		count += len(losses) + len(s.notCopied())
	}
	if count > 0 && !o.allowMissing {
		return fmt.Errorf("%d ServiceImports or other objects would vanish or change, and nothing was handed over: export the Services in clusters of the ClusterSet, "+
			"correct or delete the objects, or use --allow-missing", count)
	}
	return nil
}

// checkAgain returns an error if objects would vanish that did not when the user was asked.
func (o *options) checkAgain(ctx context.Context, s *site) error {
	if o.allowMissing {
		return nil
	}
	losses, err := o.losses(ctx, s, lastCheckTimeout)
	losses = append(losses, s.notCopied()...)
	if err == nil && len(losses) > 0 {
		err = fmt.Errorf("context %q: %d ServiceImports or other objects would vanish or change since the last check: %s", s.Context, len(losses), printer.Escape(losses[0]))
	}
	return err
}

// losses returns what would vanish in a cluster, without the objects that are not copied, which
// the report names. It waits for imports.
func (o *options) losses(ctx context.Context, s *site, timeout time.Duration) ([]string, error) {
	if len(s.held) == 0 {
		return nil, nil
	}
	losses, err := s.hiddenCRDs(ctx)
	if err != nil {
		return nil, s.WrapError(err, advice)
	}
	var imports []string
	err = s.await(ctx, timeout, "not all imports exist", func(ctx context.Context) error {
		found, err := s.missingImports(ctx)
		if err != nil {
			return err
		}
		if imports = found; len(imports) > 0 && !o.allowMissing && !o.dryRun {
			return errors.New("imports are missing")
		}
		return nil
	})
	if err != nil && len(imports) == 0 {
		return nil, err
	}
	return append(losses, imports...), ctx.Err()
}

// notCopied returns the objects of the last report that are not copied, or not as they are.
func (s *site) notCopied() []string {
	if s.mark == nil || len(s.held) == 0 {
		return nil
	}
	report, err := crdmigration.ReportOf(s.mark)
	if err != nil {
		return []string{err.Error()}
	}
	return notCopied(report)
}

func notCopied(report crdmigration.Report) []string {
	var losses []string
	for _, resource := range crdmigration.Copied {
		result := report.Resources[resource.Plural]
		for _, refusal := range result.Refused {
			losses = append(losses, fmt.Sprintf("%s %s is refused by mcs-apiserver: %s", resource.Kind, refusal.Name, refusal.Reason))
		}
		for _, name := range result.Kept {
			losses = append(losses, fmt.Sprintf("%s %s exists in mcs-apiserver already, and would stay as it is there, with its own age and UID: delete one of both", resource.Kind, name))
		}
		for range result.RefusedCount - len(result.Refused) + result.KeptCount - len(result.Kept) {
			losses = append(losses, "one more of "+resource.Plural+" is not copied")
		}
	}
	return losses
}

// hiddenCRDs returns which CRDs serve something that mcs-apiserver does not have. It would be
// hidden: an APIService replaces all resources of its group-version.
func (s *site) hiddenCRDs(ctx context.Context) ([]string, error) {
	serving, err := apiconflict.CRDsServing(ctx, s.metadata, s.objects, s.held...)
	if err != nil {
		return nil, err
	}
	return hidden(serving, s.held), nil
}

func hidden(serving map[schema.GroupVersion][]string, held []schema.GroupVersion) []string {
	var losses []string
	for _, gv := range held {
		for _, name := range serving[gv] {
			if !slices.ContainsFunc(resources(), func(resource crdmigration.Resource) bool {
				return resource.CRD() == name && slices.Contains(resource.Versions, gv.Version)
			}) {
				losses = append(losses, fmt.Sprintf("CustomResourceDefinition %s serves %s, which mcs-apiserver does not have there: its objects would be hidden", name, gv))
			}
		}
	}
	return losses
}

// missingImports returns the imports of CRDs that mcs-apiserver does not have, or that have no IP
// there.
func (s *site) missingImports(ctx context.Context) ([]string, error) {
	gvr, served := s.servedBy(crdmigration.Imports, s.held)
	if !served {
		return nil, nil
	}
	custom, err := s.list(ctx, gvr)
	if err != nil {
		return nil, err
	}
	own, err := s.list(ctx, multiclusterv1alpha1.SchemeGroupVersion.WithResource(crdmigration.Imports.Plural))
	if err != nil {
		return nil, err
	}
	return missing(custom, own), nil
}

// missing returns which imports of CRDs mcs-apiserver does not have, and why, sorted. Those with
// the label of a source cluster are not imports of the ClusterSet, but what Submariner Lighthouse
// keeps of each cluster.
func missing(custom, own []*unstructured.Unstructured) []string {
	existing := map[string]*unstructured.Unstructured{}
	for _, object := range own {
		existing[object.GetNamespace()+"/"+object.GetName()] = object
	}
	var losses []string
	for _, object := range custom {
		if _, ofCluster := object.GetLabels()[multicluster.SourceClusterLabel]; ofCluster {
			continue
		}
		name := object.GetNamespace() + "/" + object.GetName()
		if imported := existing[name]; imported == nil {
			losses = append(losses, fmt.Sprintf("ServiceImport %s exists in the CRD, but no cluster of the ClusterSet exports it: it would vanish", name))
		} else if problem := notReady(imported); problem != "" && hasIPs(object) {
			losses = append(losses, fmt.Sprintf("ServiceImport %s has an IP in the CRD, but would have none: %s", name, problem))
		}
	}
	slices.Sort(losses)
	return losses
}

func hasIPs(object *unstructured.Unstructured) bool {
	ips, _, _ := unstructured.NestedStringSlice(object.Object, "spec", "ips")
	return len(ips) > 0
}

// notReady returns why an import of mcs-apiserver has no IP, empty if it has one.
func notReady(object *unstructured.Unstructured) string {
	if kind, _, _ := unstructured.NestedString(object.Object, "spec", "type"); hasIPs(object) || kind == string(multicluster.Headless) {
		return ""
	}
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, item := range conditions {
		if condition, ok := item.(map[string]any); ok && condition["type"] == multicluster.ServiceImportReady {
			if message, ok := condition["message"].(string); ok && strings.TrimSpace(message) != "" {
				return message
			}
		}
	}
	return "its condition Ready does not say why"
}
