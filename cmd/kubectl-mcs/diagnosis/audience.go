// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/clusterlist"
)

// Reasons of exports that do not get here because of a list of clusters. The first two are on purpose.
const (
	notExportedHere    = "NotForThisCluster"
	notImportedFrom    = "NotImportedFrom"
	hubNotListed       = "HubNotListed"
	propertiesUnknown  = "PropertiesUnknown"
	invalidClusterList = "InvalidClusterList"
	noMatchingCluster  = "NoMatchingCluster"
)

// withheld reports whether a ServiceExport of another cluster lists clusters, and does not get here because
// of that. Who is listed is decided by the exporting cluster. A hub is sent what is for itself only, and passes
// it on to those that are listed.
func (d *diagnosis) withheld(c *Cluster, base Check, id string) bool {
	local := d.Importing.local()
	if local == nil || c.local() == nil || id == local.Status.ClusterID {
		return false
	}
	listed, given, errs := clusterlist.Parse(c.Path.ServiceExport.Value.Annotations, multicluster.ExportToAnnotation)
	own := local.Status.ClusterID
	switch {
	case !given:
		return false
	case len(errs) > 0:
		d.add(base.at(Export, "the ServiceExport is for no other cluster, because annotation %s is not valid: %s", multicluster.ExportToAnnotation, clusterlist.Describe(errs)).because(invalidClusterList).
			do("list the clusters that should import the service, as with this command", d.exportTo(c, own), docsChosen))
		return true
	}
	hubs := slices.DeleteFunc(d.relays(id), func(hub string) bool { return c.lists(listed, hub) })
	through := ""
	if len(hubs) > 0 {
		through = fmt.Sprintf("hub %s, through which this cluster reads it, is not listed, and does not see it", strings.Join(hubs, ", "))
	}
	if c.lists(listed, own) {
		if through == "" {
			return false
		}
		d.add(base.at(Export, "the ServiceExport is for this cluster, but %s", through).because(hubNotListed).
			do("add the hub, which passes it on to listed clusters only", d.exportTo(c, append([]string{listed.String()}, hubs...)...), docsChosen))
		return true
	}
	check := base.at(Export, "the ServiceExport is not for this cluster, but for %s", listed).because(notExportedHere)
	if c.relayed(own) && listed.Include(own, clusterlist.PropertiesOf(local)) {
		check = base.at(Export, "the ServiceExport is for %s, which this cluster has, but the exporting cluster does not know ClusterProperties of clusters behind a hub", listed).because(propertiesUnknown)
	}
	if through != "" {
		check.Message += "; " + through
	}
	d.add(check.do("add this cluster if it should import the service", d.exportTo(c, append([]string{listed.String(), own}, hubs...)...), docsChosen))
	return true
}

// exportTo returns the command that exports the service from a cluster to some.
func (d *diagnosis) exportTo(c *Cluster, clusters ...string) string {
	return fmt.Sprintf("kubectl mcs export %s -n %s --context %s --to %s", d.Service, d.Namespace, c.Context, quoted(strings.Join(clusters, ",")))
}

// plain is what a shell takes as it is.
var plain = regexp.MustCompile(`^[-._/=,:@%+a-zA-Z0-9]*$`)

// quoted returns an argument of a command for a shell: the values of ClusterProperties may be anything.
func quoted(argument string) string {
	if plain.MatchString(argument) {
		return argument
	}
	return "'" + strings.ReplaceAll(argument, "'", `'\''`) + "'"
}

// lists reports whether an exporting cluster lists another one, with the ClusterProperties that it knows.
func (c *Cluster) lists(listed clusterlist.Clusters, cluster string) bool {
	properties := map[string]string{}
	if member := find(c.Members.Value, cluster); member != nil {
		properties = clusterlist.PropertiesOf(member)
	}
	return listed.Include(cluster, properties)
}

// relayed reports whether a cluster knows another one through a hub.
func (c *Cluster) relayed(cluster string) bool {
	member := find(c.Members.Value, cluster)
	return member != nil && len(member.Status.Path) > 1
}

// ignored reports whether the namespace does not import from a cluster. If it imports from none, the check of
// the namespace says so.
func (d *diagnosis) ignored(base Check, id string) bool {
	local := d.Importing.local()
	if local == nil || id == local.Status.ClusterID {
		return false
	}
	if d.importsNothing() {
		return true
	}
	properties := map[string]string{}
	if member := d.find(id); member != nil {
		properties = clusterlist.PropertiesOf(member)
	}
	from, given, _ := d.importsFrom()
	if !given || from.Include(id, properties) {
		return false
	}
	d.add(base.at(Export, "the service is exported there, but namespace %s of this cluster does not import from there, only from %s", d.Namespace, from).because(notImportedFrom).
		do("add the cluster if the service should be imported", fmt.Sprintf("kubectl --context %s annotate namespace %s --overwrite %s", d.Importing.Context, d.Namespace, quoted(fmt.Sprintf("%s=%s,%s", clusterset.ImportFromAnnotation, from, id))), docsChosen))
	return true
}

// importsFrom returns the clusters that the namespace imports from, and what is wrong with their list; given is
// false if it imports from all.
func (d *diagnosis) importsFrom() (clusters clusterlist.Clusters, given bool, errs field.ErrorList) {
	if d.Importing.Path.Namespace.Value == nil {
		return nil, false, nil
	}
	return clusterlist.Parse(d.Importing.Path.Namespace.Value.Annotations, clusterset.ImportFromAnnotation)
}

// importsNothing reports whether nothing of other clusters is imported into the namespace.
func (d *diagnosis) importsNothing() bool {
	_, _, errs := d.importsFrom()
	return d.importDisabled() || len(errs) > 0
}

// importDisabled reports whether that is because imports are disabled.
func (d *diagnosis) importDisabled() bool {
	namespace := d.Importing.Path.Namespace.Value
	return namespace != nil && namespace.Annotations[clusterset.ImportAnnotation] == clusterset.ImportDisabled
}
