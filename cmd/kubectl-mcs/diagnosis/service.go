// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/exported"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/clusterlist"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/merge"
)

// service checks the path of a service from its exports to the imported EndpointSlices.
func (d *diagnosis) service() {
	d.exports()
	d.endpoints()
	d.conflicts()
	d.namespace()
	d.serviceImport()
	d.derived()
	d.slices()
}

// describeService returns the context of a cluster, if the user named it, and the command that shows
// the exported Service there.
func (d *diagnosis) describeService(cluster string) (context, command string) {
	for _, c := range d.all() {
		if d.idOf(c) == cluster {
			context = c.Context
		}
	}
	command = "kubectl"
	if context != "" {
		command += " --context " + context
	}
	return context, fmt.Sprintf("%s describe service %s -n %s", command, d.Service, d.Namespace)
}

func (d *diagnosis) all() []*Cluster {
	clusters := []*Cluster{&d.Importing}
	for i := range d.Others {
		clusters = append(clusters, &d.Others[i])
	}
	return clusters
}

// exporters returns the IDs of the clusters that export the service.
func (d *diagnosis) exporters() []string {
	var ids []string
	for i := range d.Importing.Path.Exports.Value {
		ids = append(ids, d.Importing.Path.Exports.Value[i].Spec.Cluster)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// exports checks which clusters export the service.
func (d *diagnosis) exports() {
	path := &d.Importing.Path
	if path.Exports.Failure != "" {
		unread(d, Export, "ExportedServices", path.Exports)
		return
	}
	exporters := d.exporters()
	for _, c := range d.all() {
		d.localExport(c, exporters)
	}
	if len(exporters) > 0 {
		d.ok(Export, "exported by %s", strings.Join(exporters, ", "))
		return
	}
	if d.has(Export, Broken) {
		return // which says why
	}
	if d.importsNothing() {
		d.add(Check{Hop: Export, Result: NotChecked, Message: fmt.Sprintf("this cluster does not export the service, and ignores what others export in namespace %s", d.Namespace), Docs: docsLimits})
		return
	}
	check := Check{Hop: Export, Result: Broken, Object: "serviceexport/" + d.Service, Message: fmt.Sprintf("service %s in namespace %s is not exported by any member that this cluster knows", d.Service, d.Namespace)}
	if from, given, _ := d.importsFrom(); given {
		check.Message += fmt.Sprintf(" and its namespace imports from (annotation %s: %s)", clusterset.ImportFromAnnotation, from)
	}
	if len(path.Elsewhere) > 0 {
		check.Message += ", but in other namespaces: " + strings.Join(path.Elsewhere, ", ")
	}
	command := fmt.Sprintf("kubectl mcs export %s -n %s", d.Service, d.Namespace)
	for _, c := range d.all() {
		if has(c.Path.Service) && !isDerived(c.Path.Service.Value) {
			command += " --context " + c.Context
			break
		}
	}
	d.add(check.do("export the Service in a cluster that has it", command, docsExporting))
}

func has[T any](read Read[*T]) bool { return read.Failure == "" && read.Value != nil }

// localExport checks the ServiceExport of one cluster.
func (d *diagnosis) localExport(c *Cluster, exporters []string) {
	if !has(c.Path.ServiceExport) {
		return
	}
	id, export := d.idOf(c), c.Path.ServiceExport.Value
	base := Check{Result: Broken, Context: c.Context, Cluster: id, Object: "serviceexport/" + d.Service}
	if len(exporters) > 0 {
		base.Result = Warning // others export it
	}
	describe := fmt.Sprintf("kubectl --context %s describe serviceexport %s -n %s", c.Context, d.Service, d.Namespace)
	for _, name := range []string{multicluster.ServiceExportValid, multicluster.ServiceExportReady} {
		condition := meta.FindStatusCondition(export.Status.Conditions, name)
		if condition != nil && condition.Status != metav1.ConditionTrue {
			if slices.Contains([]string{noMatchingCluster, invalidClusterList}, condition.Reason) && d.withheld(c, base, id) {
				return // which says more about this cluster
			}
			d.add(base.at(Export, "%s", condition.Message).because(condition.Reason).do("", describe, docsExports))
			return
		}
	}
	switch {
	case slices.Contains(exporters, id), c.local() == nil: // without its ID, nobody knows whether it is one of the exporters
	case !meta.IsStatusConditionTrue(export.Status.Conditions, multicluster.ServiceExportReady):
		d.add(base.at(Export, "mcs-controller has not processed the ServiceExport yet").because("Pending").do("", describe, docsExports))
	case d.withheld(c, base, id), d.ignored(base, id):
	default:
		check := base.at(Export, "the service is exported there, but this cluster does not know it").do("wait a moment; see the conditions of the member", d.describeMember(id), docsSynced)
		if member := d.find(id); member != nil {
			if synced := meta.FindStatusCondition(member.Status.Conditions, clusterset.MemberSynced); synced != nil && synced.Status != metav1.ConditionTrue {
				check.Reason, check.Message = synced.Reason, check.Message+": "+synced.Message
			}
		}
		d.add(check)
	}
}

// find returns the member with this ID, nil if there is none.
func (d *diagnosis) find(id string) *clustersetv1alpha1.Member {
	return find(d.Importing.Members.Value, id)
}

func find(members []clustersetv1alpha1.Member, id string) *clustersetv1alpha1.Member {
	for i := range members {
		if member := &members[i]; member.Name == id {
			return member
		}
	}
	return nil
}

// serving returns how many endpoints of an export are ready for a port, and how many there are.
func (d *diagnosis) serving(export *clustersetv1alpha1.ExportedServiceSpec, port clustersetv1alpha1.ServicePort) (ready, total int) {
	return exported.CountEndpoints(d.Importing.Path.Endpoints.Value, export, port.Protocol, port.Port, "")
}

// endpoints checks whether every port has endpoints that are ready.
func (d *diagnosis) endpoints() {
	path := &d.Importing.Path
	switch {
	case path.Endpoints.Failure != "":
		unread(d, Endpoints, "ExportedEndpointSlices", path.Endpoints)
		return
	case len(path.Exports.Value) == 0:
		return // which is said
	}
	for i := range path.Exports.Value {
		d.endpointsOf(&path.Exports.Value[i].Spec)
	}
}

// forbiddenAddress is the reason of endpoints that are refused because of their addresses.
const forbiddenAddress = "ForbiddenAddress"

// unsynced returns the member of which this cluster does not know everything, and the condition that says why:
// an exporting cluster or a hub that relays it. It returns nil if everything is known.
func (d *diagnosis) unsynced(exporter string) (*clustersetv1alpha1.Member, *metav1.Condition) {
	for _, id := range append(d.relays(exporter), exporter) {
		member := d.find(id)
		if member == nil || member.Status.State == clustersetv1alpha1.MemberLocal {
			continue
		}
		if condition := meta.FindStatusCondition(member.Status.Conditions, clusterset.MemberSynced); condition != nil && condition.Status != metav1.ConditionTrue {
			return member, condition
		}
	}
	return nil, nil
}

// relays returns the hubs between a cluster and this one, first the one that this cluster reads.
func (d *diagnosis) relays(cluster string) []string {
	member := d.find(cluster)
	if member == nil {
		return nil
	}
	hubs := slices.DeleteFunc(slices.Clone(member.Status.Path), func(id string) bool { return id == cluster })
	slices.Reverse(hubs)
	return hubs
}

// endpointsOf checks the endpoints of one exporting cluster.
func (d *diagnosis) endpointsOf(export *clustersetv1alpha1.ExportedServiceSpec) {
	ready, total := d.serving(export, clustersetv1alpha1.ServicePort{})
	context, command := d.describeService(export.Cluster)
	base := Check{Hop: Endpoints, Result: Broken, Context: context, Cluster: export.Cluster, Object: "service/" + d.Service}
	if ready == 0 {
		if d.servedElsewhere(export.Cluster, clustersetv1alpha1.ServicePort{}) {
			base.Result = Warning
		}
		if member, condition := d.unsynced(export.Cluster); total == 0 && condition != nil {
			d.refused(base, member, condition)
			return
		}
		message := "the Service has no endpoints: its selector matches no Pod, or none has an IP"
		if total > 0 {
			message = fmt.Sprintf("none of %d endpoints of the Service is ready", total)
		}
		d.add(base.at(Endpoints, "%s", message).do(fmt.Sprintf("see the Pods in cluster %s", export.Cluster), command, docsExporting))
		return
	}
	unserved := false
	for _, port := range export.Ports {
		if readyAtPort, _ := d.serving(export, port); readyAtPort > 0 {
			continue
		}
		unserved = true
		check := base
		if d.servedElsewhere(export.Cluster, port) {
			check.Result = Warning
		}
		d.add(check.at(Endpoints, "port %s has no endpoints, but others have: its targetPort is a name that no ready Pod has", exported.PortText(port.Name, port.Port, port.Protocol)).
			do(fmt.Sprintf("correct targetPort of the Service, or the names of ports of the Pods, in cluster %s", export.Cluster), command, docsExporting))
	}
	if !unserved {
		d.add(Check{Hop: Endpoints, Result: OK, Context: context, Cluster: export.Cluster, Message: fmt.Sprintf("%d of %d endpoints are ready", ready, total)})
	}
}

// refused reports that endpoints may be among what this cluster does not know of a member.
func (d *diagnosis) refused(base Check, member *clustersetv1alpha1.Member, condition *metav1.Condition) {
	docs := docsSynced
	switch {
	case strings.Contains(condition.Message, forbiddenAddress):
		docs = docsPodNetworks
	case slices.Contains([]string{clusterset.ReasonInvalidObjects, clusterset.ReasonTooManyExports, clusterset.ReasonResponseTooLarge}, condition.Reason):
		docs = docsLimits
	}
	base.Context = ""
	d.add(base.at(Endpoints, "this cluster knows no endpoints of the Service, and not everything that member %s sends: %s", member.Name, condition.Message).because(condition.Reason).
		about("member/"+member.Name).do("", d.describeMember(member.Name), docs))
}

// servedElsewhere reports whether another cluster has ready endpoints for a port.
func (d *diagnosis) servedElsewhere(cluster string, port clustersetv1alpha1.ServicePort) bool {
	for i := range d.Importing.Path.Exports.Value {
		other := &d.Importing.Path.Exports.Value[i].Spec
		if other.Cluster == cluster || port.Port != 0 && merge.ServingPort(other.Ports, port.Protocol, port.Port) == nil {
			continue
		}
		if ready, _ := d.serving(other, port); ready > 0 {
			return true
		}
	}
	return false
}

// typeConflict is the reason of the only conflict after which clients of a cluster cannot reach the
// service as it is exported there: it has no IP, or other names.
const typeConflict = "TypeConflict"

// conflicts checks whether all clusters export the service alike.
func (d *diagnosis) conflicts() {
	exports := d.Importing.Path.Exports.Value
	if len(exports) == 0 {
		return
	}
	var inputs []merge.Export
	for i := range exports {
		inputs = append(inputs, merge.FromV1alpha1(&exports[i]))
	}
	conflicts := merge.MergeIn(d.localIPs(), inputs).Conflicts
	for _, conflict := range conflicts {
		result := Warning
		if conflict.Reason == typeConflict {
			result = Broken
		}
		d.add(Check{Hop: Conflicts, Result: result, Object: "serviceexport/" + d.Service, Reason: conflict.Reason, Message: conflict.Message}.
			do("export the same from all clusters", fmt.Sprintf("kubectl mcs explain %s -n %s --context %s", d.Service, d.Namespace, d.Importing.Context), docsConflicts))
	}
	if len(conflicts) == 0 {
		d.ok(Conflicts, "all clusters export the same properties")
	}
}

// localIPs returns what the cluster knows about the shared ClusterSet IP besides the exports.
func (d *diagnosis) localIPs() clustersetip.Local {
	local := clustersetip.Local{Now: d.Now}
	local.Cluster, _ = d.identity()
	if imported := d.Importing.Path.Import.Value; imported != nil {
		local.IPs = clusterset.SplitList(imported.Annotations[multicluster.ClusterSetIPAnnotation])
		local.Imported = len(imported.Spec.IPs) > 0
	}
	return local
}

// namespace checks whether services are imported into the namespace.
func (d *diagnosis) namespace() {
	read := d.Importing.Path.Namespace
	check := Check{Hop: Namespace, Result: Broken, Object: "namespace/" + d.Namespace}
	kubectl := "kubectl --context " + d.Importing.Context
	switch namespace := read.Value; {
	case read.Failure != "" && has(d.Importing.Path.Import):
		d.ok(Namespace, "namespace %s exists, because the service is imported", d.Namespace)
	case read.Failure != "":
		unread(d, Namespace, "namespace "+d.Namespace, read)
	case namespace == nil:
		d.add(check.at(Namespace, "namespace %s does not exist in this cluster: services are imported only into namespaces that exist", d.Namespace).
			do("create it", kubectl+" create namespace "+d.Namespace, docsImports))
	case namespace.DeletionTimestamp != nil || namespace.Status.Phase == corev1.NamespaceTerminating:
		d.add(check.at(Namespace, "namespace %s is being deleted in this cluster", d.Namespace).do("", kubectl+" describe namespace "+d.Namespace, docsImports))
	case d.importDisabled():
		if len(d.exporters()) > 0 {
			check.Result = Warning // this cluster exports the service, and imports that
		}
		d.add(check.at(Namespace, "the annotation %s=%s keeps services of other clusters from being imported into namespace %s", clusterset.ImportAnnotation, clusterset.ImportDisabled, d.Namespace).
			do("remove it if they should be imported", fmt.Sprintf("%s annotate namespace %s %s-", kubectl, d.Namespace, clusterset.ImportAnnotation), docsLimits))
	default:
		from, given, errs := d.importsFrom()
		switch {
		case len(errs) > 0:
			if len(d.exporters()) > 0 {
				check.Result = Warning // this cluster exports the service, and imports that
			}
			d.add(check.at(Namespace, "namespace %s imports from no other cluster, because annotation %s is not valid: %s", d.Namespace, clusterset.ImportFromAnnotation, clusterlist.Describe(errs)).because(invalidClusterList).
				do("correct it, or remove it to import from all clusters", fmt.Sprintf("%s annotate namespace %s %s-", kubectl, d.Namespace, clusterset.ImportFromAnnotation), docsChosen))
		case given:
			d.ok(Namespace, "namespace %s exists, and imports from %s only", d.Namespace, from)
		default:
			d.ok(Namespace, "namespace %s exists", d.Namespace)
		}
	}
}

// serviceImport checks the ServiceImport.
func (d *diagnosis) serviceImport() {
	read := d.Importing.Path.Import
	describe := fmt.Sprintf("kubectl --context %s describe serviceimport %s -n %s", d.Importing.Context, d.Service, d.Namespace)
	base := Check{Hop: Import, Result: Broken, Object: "serviceimport/" + d.Service}
	switch imported := read.Value; {
	case read.Failure != "":
		unread(d, Import, "the ServiceImport", read)
		return
	case imported == nil:
		d.add(base.at(Import, "the service is not imported").do("", describe, docsImports))
		return
	}
	for _, condition := range read.Value.Status.Conditions {
		if condition.Status == metav1.ConditionTrue {
			continue
		}
		check := base.at(Import, "%s", condition.Message).because(condition.Reason).do("", describe, docsImportReasons)
		if condition.Type != multicluster.ServiceImportReady || condition.Status == metav1.ConditionUnknown {
			check.Result = Warning
		}
		d.add(check)
	}
	if meta.IsStatusConditionTrue(read.Value.Status.Conditions, multicluster.ServiceImportReady) {
		d.ok(Import, "%s", describeImport(&read.Value.Spec))
	}
}

func describeImport(spec *multiclusterxv1beta1.ServiceImportSpec) string {
	var ports []string
	for _, port := range spec.Ports {
		ports = append(ports, exported.PortText(port.Name, port.Port, port.Protocol))
	}
	text := fmt.Sprintf("imported as %s", spec.Type)
	if len(spec.IPs) > 0 {
		text += " with " + strings.Join(spec.IPs, ", ")
	}
	return text + ", ports " + cmp.Or(strings.Join(ports, ", "), "none")
}

func isDerived(service *corev1.Service) bool {
	return service.Labels[multicluster.ManagedByLabel] == multicluster.ManagedBy
}

// derived checks the derived Service.
func (d *diagnosis) derived() {
	read, name := d.Importing.Path.Derived, multicluster.DerivedServiceName(d.Namespace, d.Service)
	base := Check{Hop: Derived, Result: Broken, Object: "service/" + name}
	get := fmt.Sprintf("kubectl --context %s get service %s -n %s -o yaml", d.Importing.Context, name, d.Namespace)
	switch service := read.Value; {
	case read.Failure != "":
		unread(d, Derived, "the derived Service", read)
	case service == nil:
		d.add(base.at(Derived, "derived Service %s does not exist", name).do("mcs-controller creates it for the ServiceImport", get, docsImports))
	case !isDerived(service):
		d.add(base.at(Derived, "name conflict: Service %s is not managed by mcs-controller; delete it so that the derived Service can be created", name).
			do("delete it", fmt.Sprintf("kubectl --context %s delete service %s -n %s", d.Importing.Context, name, d.Namespace), docsImports).byItself())
	default:
		if missing := d.missingIPs(service); len(missing) > 0 {
			d.add(base.at(Derived, "derived Service %s does not have the IPs of the import: %s", name, strings.Join(missing, ", ")).do("", get, docsImports).byItself())
			return
		}
		d.ok(Derived, "derived Service %s exists", name)
		d.preference(service)
	}
}

// missingIPs returns the IPs of the import that the derived Service does not have.
func (d *diagnosis) missingIPs(service *corev1.Service) []string {
	if d.Importing.Path.Import.Value == nil {
		return nil
	}
	ips := slices.Clone(service.Spec.ClusterIPs)
	for _, ingress := range service.Status.LoadBalancer.Ingress {
		ips = append(ips, ingress.IP)
	}
	return slices.DeleteFunc(slices.Clone(d.Importing.Path.Import.Value.Spec.IPs), func(ip string) bool { return slices.Contains(ips, ip) })
}

// slices checks the imported EndpointSlices.
func (d *diagnosis) slices() {
	read := d.Importing.Path.Slices
	if read.Failure != "" {
		unread(d, Slices, "imported EndpointSlices", read)
		return
	}
	ready := map[string]int{}
	total := 0
	for i := range read.Value {
		count := exported.CountReady(read.Value[i].Endpoints)
		ready[read.Value[i].Labels[multicluster.SourceClusterLabel]] += count
		total += count
	}
	list := fmt.Sprintf("kubectl --context %s get endpointslices -n %s -l %s=%s", d.Importing.Context, d.Namespace, multicluster.ServiceNameLabel, d.Service)
	base := Check{Hop: Slices, Result: Broken}
	missing := false
	for i := range d.Importing.Path.Exports.Value {
		export := &d.Importing.Path.Exports.Value[i].Spec
		count, _ := d.serving(export, clustersetv1alpha1.ServicePort{})
		if count == 0 || ready[export.Cluster] > 0 || !d.usable(export.Cluster) {
			continue
		}
		missing = true
		base.Cluster = export.Cluster
		message := fmt.Sprintf("%d endpoints are ready, but none is in an imported EndpointSlice", count)
		if member := d.find(export.Cluster); member != nil && member.Status.Expired {
			message += ": they are withdrawn, because the member is silent and they do not answer"
		}
		d.add(base.at(Slices, "%s", message).do("", list, docsImports))
	}
	switch {
	case missing:
	case total == 0:
		base.Cluster = ""
		d.add(base.at(Slices, "no imported EndpointSlice has a ready endpoint").do("", list, docsImports))
	default:
		d.ok(Slices, "imported EndpointSlices have %d ready endpoints", total)
	}
}

// usable reports whether the import has an IP family of the endpoints of a cluster.
func (d *diagnosis) usable(cluster string) bool {
	imported := d.Importing.Path.Import.Value
	if imported == nil || len(imported.Spec.IPFamilies) == 0 {
		return true
	}
	return slices.ContainsFunc(d.Importing.Path.Endpoints.Value, func(slice clustersetv1alpha1.ExportedEndpointSlice) bool {
		return slice.Spec.Cluster == cluster && slices.Contains(imported.Spec.IPFamilies, corev1.IPFamily(slice.Spec.AddressType)) && exported.CountReady(slice.Spec.Endpoints) > 0
	})
}
