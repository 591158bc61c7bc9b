// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/exported"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/plan"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/validation"
)

// clusterSet checks everything that does not depend on a service.
func (d *diagnosis) clusterSet() {
	d.installation(&d.Importing)
	d.checkIdentity()
	d.credentials()
	d.members()
	for i := range d.Others {
		other := &d.Others[i]
		if other.Silent != "" {
			d.add(Check{
				Hop: Members, Result: NotChecked, Context: other.Context, Message: "the cluster could not be asked: " + other.Silent, Command: "kubectl config get-contexts", elsewhere: true,
			})
			continue
		}
		d.installation(other)
		d.viewOf(other)
	}
	d.clocks()
	d.versions()
}

// idOf returns the ID of a cluster, or the name of its context if it is unknown: that is often the
// same. It becomes a part of commands, and is what the cluster says about itself.
func (d *diagnosis) idOf(c *Cluster) string {
	if local := c.local(); local != nil && len(validation.ValidateClusterID(local.Status.ClusterID, nil)) == 0 {
		return local.Status.ClusterID
	}
	return c.Context
}

// severity returns how bad a problem of a cluster is: it is a warning if the cluster neither exports the service
// nor relays it, or if others export it that have no problem, unless a Pod found its endpoints dead.
func (d *diagnosis) severity(cluster string) Result {
	exporters := d.exporters()
	if d.Service == "" || len(exporters) == 0 {
		return Broken
	}
	needed, others := false, false
	for _, exporter := range exporters {
		if d.dependsOn(exporter, cluster) {
			needed = true
		} else if d.serves(exporter) {
			others = true
		}
	}
	_, direct := d.attempts()
	dead := d.failing(slices.DeleteFunc(direct, func(c Connection) bool { return !d.dependsOn(c.Cluster, cluster) }))
	if needed && (!others || dead) {
		return Broken
	}
	return Warning
}

// serves reports whether a cluster is connected, and has ready endpoints of the service.
func (d *diagnosis) serves(exporter string) bool {
	for _, id := range append(d.relays(exporter), exporter) {
		if member := d.find(id); member == nil || member.Status.State != clustersetv1alpha1.MemberConnected && member.Status.State != clustersetv1alpha1.MemberLocal {
			return false
		}
	}
	return slices.ContainsFunc(d.Importing.Path.Endpoints.Value, func(slice clustersetv1alpha1.ExportedEndpointSlice) bool {
		return slice.Spec.Cluster == exporter && exported.CountReady(slice.Spec.Endpoints) > 0
	})
}

// installation checks whether mcs-apiserver and mcs-controller run in a cluster, and serve their API.
func (d *diagnosis) installation(c *Cluster) {
	base := Check{Context: c.Context, Result: Broken}
	if c != &d.Importing {
		base.Cluster, base.elsewhere = d.idOf(c), true
		base.Result = d.severity(base.Cluster)
	}
	d.registration(c, base)
	d.server(c, base)
	d.api(c, base)
	d.controller(c, base)
}

// at returns a check of a hop with the same place and severity.
func (c Check) at(hop Hop, message string, args ...any) Check {
	c.Hop, c.Message = hop, fmt.Sprintf(message, args...)
	return c
}

func (c Check) with(result Result) Check {
	c.Result = result
	return c
}

// do adds what to do.
func (c Check) do(remedy, command, docs string) Check {
	c.Remedy, c.Command, c.Docs = remedy, command, docs
	return c
}

func (c Check) about(object string) Check {
	c.Object = object
	return c
}

// byItself says that nothing else explains it.
func (c Check) byItself() Check {
	c.independent = true
	return c
}

func (c Check) because(reason string) Check {
	c.Reason = reason
	return c
}

// registration checks what keeps mcs-controller from registering the API.
func (d *diagnosis) registration(c *Cluster, base Check) {
	api := c.Host.API
	if !api.Observed {
		for _, finding := range c.Host.Unobserved {
			if finding.Check == plan.CheckAPI {
				d.add(base.with(NotChecked).at(Registration, "%s", finding.Message).do("", "", docsDoctor))
			}
		}
		return
	}
	if api.Detached {
		d.add(base.at(Registration, "the API of mcs-apiserver is detached").because("Detached").
			about("configmap/"+clusterset.DetachedConfigMap).do("attach it", "kubectl mcs attach "+c.Context, docsDetached))
	}
	for _, conflict := range api.Conflicts {
		d.add(base.at(Registration, "%s", conflict).because("RegistrationRefused").do("migrate from what serves the API instead, or remove it", "kubectl mcs migrate "+c.Context, docsMigrate))
	}
	for _, crd := range api.Hidden {
		d.add(base.with(Warning).at(Registration, "CustomResourceDefinition %s is hidden by the API of mcs-apiserver, and so are its objects", crd).
			about("customresourcedefinition/"+crd).do("", "kubectl mcs migrate "+c.Context, docsMigrate))
	}
	if !api.Detached && len(api.Conflicts) == 0 {
		d.add(base.with(OK).at(Registration, "nothing else serves the API of mcs-apiserver"))
	}
}

// server checks whether a replica of mcs-apiserver is ready.
func (d *diagnosis) server(c *Cluster, base Check) {
	deployment := c.Deployment.Value
	switch available := c.Host.API.Observed && c.Host.API.Unavailable == "" || d.answers(c); {
	case c.Deployment.Failure != "":
		d.add(base.with(NotChecked).at(Server, "the Deployment of mcs-apiserver could not be read: %s", c.Deployment.Failure).do("", "", docsDoctor).byItself())
	case deployment == nil && available:
		d.add(base.with(NotChecked).at(Server, "namespace %s has no Deployment of mcs-apiserver with a container mcs-controller, but its API is available", c.InstalledIn).do("", "", docsInstall))
	case deployment == nil:
		d.add(base.at(Server, "mcs-apiserver is not installed in namespace %s, and no APIService refers to another one", c.InstalledIn).do("install it", "kubectl --context "+c.Context+" get deployments -A -l app.kubernetes.io/name=mcs-apiserver", docsInstall))
	default:
		d.replicas(c, base.about("deployment/"+deployment.Name))
	}
}

// replicas checks how many replicas are ready, and why the others are not.
func (d *diagnosis) replicas(c *Cluster, base Check) {
	deployment := c.Deployment.Value
	describe := fmt.Sprintf("kubectl --context %s describe deployment -n %s %s", c.Context, deployment.Namespace, deployment.Name)
	why := ""
	if deployment.UnreadyBecauseOf != "" {
		why = ": " + deployment.UnreadyBecauseOf
	}
	switch {
	case deployment.Ready > 0 && deployment.Ready >= deployment.Replicas:
		d.add(base.with(OK).at(Server, "%d of %d replicas of mcs-apiserver are ready", deployment.Ready, deployment.Replicas))
	case deployment.Ready > 0:
		d.add(base.with(Warning).at(Server, "%d of %d replicas of mcs-apiserver are ready%s", deployment.Ready, deployment.Replicas, why).do("", describe, docsReplicas))
	case deployment.Replicas == 0:
		d.add(base.at(Server, "mcs-apiserver has no replicas").do("scale it up", fmt.Sprintf("kubectl --context %s scale deployment -n %s %s --replicas=2", c.Context, deployment.Namespace, deployment.Name), docsReplicas))
	case deployment.Reason == "StorageUnavailable":
		d.add(base.at(Server, "no replica of mcs-apiserver is ready: %s", deployment.Message).because(deployment.Reason).do("", describe, docsLostStorage))
	default:
		if deployment.Reason != "" {
			why += fmt.Sprintf("; the latest warning is %s: %s", deployment.Reason, deployment.Message)
		}
		d.add(base.at(Server, "none of %d replicas of mcs-apiserver is ready%s", deployment.Replicas, why).do("", describe, docsDown))
	}
}

// api checks whether the kube-apiserver reaches mcs-apiserver. Users who may not read APIServices
// find out by using the API.
func (d *diagnosis) api(c *Cluster, base Check) {
	command := "kubectl --context " + c.Context + " get apiservices -l app.kubernetes.io/managed-by=mcs-controller"
	switch {
	case c.Host.API.Observed && c.Host.API.Unavailable != "":
		d.add(base.at(API, "%s", c.Host.API.Unavailable).do("", command, docsDown))
	case c.unserved() != "":
		d.add(base.at(API, "the API of mcs-apiserver is not served: %s", c.unserved()).do("", command, docsDown))
	case c.Host.API.Observed || d.answers(c):
		d.add(base.with(OK).at(API, "the API of mcs-apiserver is available"))
	default:
		d.add(base.with(NotChecked).at(API, "whether the API of mcs-apiserver is available is not known: %s", c.Members.Failure).do("", "", docsDoctor).byItself())
	}
}

// answers reports whether something was read from the API of a cluster. Users of a namespace may not read
// the members, but what is in the namespace.
func (d *diagnosis) answers(c *Cluster) bool {
	inNamespace := c == &d.Importing && d.Service != "" && (c.Path.Exports.Failure == "" || c.Path.Import.Failure == "")
	return c.Members.Failure == "" || inNamespace
}

// unserved returns why the API of a cluster is not served, empty if that is not known.
func (c *Cluster) unserved() string {
	switch {
	case c.Members.Unserved:
		return c.Members.Failure
	case c.Path.Exports.Unserved:
		return c.Path.Exports.Failure
	case c.Path.Import.Unserved:
		return c.Path.Import.Failure
	}
	return ""
}

// clusterTime returns the time in a cluster at a time of this machine: the earliest one that is possible, as
// far as the clock of the cluster is known.
func (c *Cluster) clusterTime(here time.Time) time.Time {
	if c.Host.Clock == nil {
		return here
	}
	return here.Add(c.Host.Clock.Least)
}

// leaseGrace is how long a Lease may be overdue. Another replica takes over meanwhile.
const leaseGrace = 15 * time.Second

// controller checks whether a replica of mcs-controller writes derived objects.
func (d *diagnosis) controller(c *Cluster, base Check) {
	lease := c.Lease.Value
	switch {
	case c.Lease.Failure != "":
		d.add(base.with(NotChecked).at(Controller, "the Lease of mcs-controller could not be read: %s", c.Lease.Failure).do("", "", docsDoctor).byItself())
		return
	case lease == nil:
		d.add(base.with(NotChecked).at(Controller, "mcs-controller has no Lease: it has not started yet, or runs without leader election").do("", "kubectl --context "+c.Context+" get leases -A", docsReplicas))
		return
	}
	base = base.about("lease/" + lease.Name)
	if late := c.clusterTime(lease.ReadAt).Sub(lease.Renewed) - lease.Duration; late > leaseGrace {
		d.add(base.at(Controller, "no replica of mcs-controller has led since %s: derived Services, imported EndpointSlices and conditions are not updated", lease.Renewed.UTC().Format(time.RFC3339)).
			do("", fmt.Sprintf("kubectl --context %s logs -n %s -l app.kubernetes.io/name=mcs-apiserver -c mcs-controller", c.Context, lease.Namespace), docsReplicas))
		return
	}
	d.add(base.with(OK).at(Controller, "mcs-controller of %s leads", cmp.Or(lease.Holder, "an unknown replica")))
}

// checkIdentity checks whether the importing cluster is in a ClusterSet.
func (d *diagnosis) checkIdentity() {
	if d.Importing.Members.Failure != "" {
		unread(d, Identity, "members", d.Importing.Members)
		return
	}
	id, clusterSet := d.identity()
	switch join := "kubectl mcs join"; {
	case id == "":
		d.add(Check{Hop: Identity, Result: Broken, Object: "clusterclaim/id.k8s.io", Message: "the cluster has no ID, and is not in a ClusterSet"}.do("join the cluster to a ClusterSet", join, docsIdentity))
		return
	case clusterSet == "":
		d.add(Check{Hop: Identity, Result: Broken, Reason: "NoClusterSet", Object: "clusterclaim/clusterset.k8s.io", Message: "the cluster is not in a ClusterSet"}.do("join the cluster to a ClusterSet", join, docsJoin))
		return
	}
	d.ok(Identity, "the cluster is %s in ClusterSet %s", id, clusterSet)
	for _, condition := range d.Importing.local().Status.Conditions {
		if docs := map[string]string{clusterset.MemberMutual: docsMutual, clusterset.MemberClusterSetIP: docsClusterSetIP}[condition.Type]; docs != "" && condition.Status == metav1.ConditionFalse {
			d.add(Check{Hop: Identity, Result: Warning, Object: "member/" + id, Reason: condition.Reason, Message: condition.Message}.do("", d.describeMember(id), docs))
		}
	}
}

func (d *diagnosis) describeMember(name string) string {
	return fmt.Sprintf("kubectl --context %s describe member %s", d.Importing.Context, name)
}

// peers returns the members other than the importing cluster, first those that it reads, and then those
// that hubs relay.
func (d *diagnosis) peers() []clustersetv1alpha1.Member {
	peers := slices.DeleteFunc(slices.Clone(d.Importing.Members.Value), func(m clustersetv1alpha1.Member) bool { return m.Status.State == clustersetv1alpha1.MemberLocal })
	slices.SortFunc(peers, func(a, b clustersetv1alpha1.Member) int {
		return cmp.Or(cmp.Compare(len(a.Status.Path), len(b.Status.Path)), cmp.Compare(a.Name, b.Name))
	})
	return peers
}

// rejects reports whether a member rejects the credential. Of a cluster that a hub relays, the credential is
// that of the hub.
func (d *diagnosis) rejects(member *clustersetv1alpha1.Member) *metav1.Condition {
	if len(d.relays(member.Name)) > 0 {
		return nil
	}
	if condition := meta.FindStatusCondition(member.Status.Conditions, clusterset.MemberReachable); condition != nil && condition.Status == metav1.ConditionFalse && condition.Reason == "Unauthorized" {
		return condition
	}
	return nil
}

// credentials checks the tokens with which this cluster reads its members.
func (d *diagnosis) credentials() {
	rejected := map[string]bool{}
	for _, member := range d.peers() {
		condition := d.rejects(&member)
		if condition == nil {
			continue
		}
		rejected[member.Name] = true
		d.add(Check{
			Hop: Credentials, Result: d.severity(member.Name), Cluster: member.Name, Object: "member/" + member.Name, Reason: condition.Reason, Message: condition.Message,
		}.do("join both clusters again, or accept another invitation of the member", "kubectl mcs join", docsRenewing))
	}
	if d.Importing.Credentials.Failure != "" {
		unread(d, Credentials, "member Secrets", d.Importing.Credentials)
		return
	}
	if n := d.expiring(rejected); n > 0 && !d.has(Credentials, Broken) && !d.has(Credentials, Warning) {
		d.ok(Credentials, "no peer credential expires soon (%d)", n)
	}
}

// expiring checks when tokens expire, and returns how many there are. mcs-controller renews them
// when half of their life is over.
func (d *diagnosis) expiring(rejected map[string]bool) int {
	latest := map[string]Credential{}
	for _, credential := range d.Importing.Credentials.Value {
		if credential.Expires.After(latest[credential.ClusterID].Expires) {
			latest[credential.ClusterID] = credential
		}
	}
	for _, id := range slices.Sorted(maps.Keys(latest)) {
		credential := latest[id]
		check := Check{Hop: Credentials, Cluster: id, Object: "secret/" + credential.Secret}.do("join both clusters again, or accept another invitation of the member", "kubectl mcs join", docsRenewing)
		left, at := credential.Expires.Sub(d.Importing.clusterTime(d.Now)), credential.Expires.UTC().Format(time.RFC3339)
		switch {
		case rejected[id]: // said already
		case left <= 0:
			d.add(check.with(d.severity(id)).at(Credentials, "the peer credential expired at %s", at).because("Unauthorized"))
		case left < credential.Expires.Sub(credential.Issued)/4:
			d.add(check.with(Warning).at(Credentials, "the peer credential expires at %s, and was not renewed", at).because("CredentialNotRenewed"))
		}
	}
	return len(latest)
}

// members checks the members in the view of the importing cluster.
func (d *diagnosis) members() {
	if d.Importing.Members.Failure != "" {
		unread(d, Members, "members", d.Importing.Members)
		return
	}
	var connected []string
	for _, member := range d.peers() {
		if d.member(&member) {
			connected = append(connected, member.Name)
		}
	}
	switch id, clusterSet := d.identity(); {
	case len(connected) > 0:
		d.ok(Members, "connected to %s", strings.Join(connected, ", "))
	case len(d.peers()) == 0 && id != "" && clusterSet != "":
		d.add(Check{Hop: Members, Result: Warning, Message: "the ClusterSet has no other member"}.do("join other clusters", "kubectl mcs join", docsJoin))
	}
}

// sectionOf are the sections about the conditions of members.
var sectionOf = map[string]string{
	clusterset.MemberAccepted: docsAccepted, clusterset.MemberReachable: docsReachable, clusterset.MemberSynced: docsSynced, clusterset.MemberMutual: docsMutual, clusterset.MemberClusterSetIP: docsClusterSetIP,
}

// memberRemedies say what to do by the reason of a condition, as docs/conditions.md does.
var memberRemedies = map[string]string{
	"InvalidSecret":      "correct the keys of the member Secret that the message names",
	"WrongClusterID":     "correct cluster-id or kubeconfig in the member Secret, or join again if the cluster was renamed",
	"WrongClusterSet":    "join the cluster again, or remove it with kubectl mcs leave --id",
	"LeadsToThisCluster": "delete the member Secret",
	"DuplicateClusterID": "give the cluster that joined last another ID: leave, and join with --id",
	"DuplicateSecret":    "delete one of both member Secrets",
	"Unreachable":        "check the network, the server in the member Secret, and the kube-apiserver of the member",
	"Unauthorized":       "join both clusters again, or accept another invitation of the member",
	"Forbidden":          "bind the service account of this cluster in the member to the ClusterRole mcs-apiserver:peer",
	"NotInstalled":       "install mcs-apiserver in the member, attach its API, or correct the server in the member Secret",
	"Unavailable":        "see mcs-apiserver of the member",
	"Refused":            "compare the versions of both clusters",
	"Unreadable":         "check that the server in the member Secret is a kube-apiserver, and compare the versions",
}

// member checks one member, and reports whether it is connected.
func (d *diagnosis) member(member *clustersetv1alpha1.Member) bool {
	base := Check{Cluster: member.Name, Object: "member/" + member.Name, Command: d.describeMember(member.Name)}
	if member.Status.State == clustersetv1alpha1.MemberConnected {
		for _, condition := range member.Status.Conditions {
			docs := sectionOf[condition.Type]
			if condition.Status != metav1.ConditionFalse || docs == "" {
				continue
			}
			if condition.Reason == clusterset.ReasonInvalidObjects {
				docs = docsLimits
			}
			d.add(base.with(Warning).at(Members, "%s", condition.Message).because(condition.Reason).do("", base.Command, docs))
		}
		return true
	}
	result, message := d.severity(member.Name), fmt.Sprintf("the member is %s", member.Status.State)
	if seen := member.Status.LastSeen; seen != nil {
		message += ", and was last seen at " + seen.UTC().Format(time.RFC3339)
	}
	docs := docsSilent
	for _, name := range []string{clusterset.MemberAccepted, clusterset.MemberReachable} {
		condition := meta.FindStatusCondition(member.Status.Conditions, name)
		if condition == nil || condition.Status == metav1.ConditionTrue {
			continue
		}
		message += ": " + condition.Message
		base.Reason, docs = condition.Reason, sectionOf[name]
		if condition.Status == metav1.ConditionUnknown && member.Status.State == clustersetv1alpha1.MemberConnecting {
			result = Warning // it has not been tried yet
		}
		if condition.Status == metav1.ConditionFalse {
			break
		}
	}
	remedy := memberRemedies[base.Reason]
	if hubs := d.relays(member.Name); len(hubs) > 0 { // which has the member Secret
		message += fmt.Sprintf(" (relayed by hub %s)", hubs[0])
		remedy, docs = fmt.Sprintf("see the member in cluster %s, the hub that relays it", hubs[0]), docsHubs
		base.Command = d.describeMemberIn(hubs[0], member.Name)
	}
	d.add(base.with(result).at(Members, "%s", message).do(remedy, base.Command, docs))
	return false
}

// describeMemberIn returns the command that describes a member of a hub or, if its context is not known, the one
// that describes the hub.
func (d *diagnosis) describeMemberIn(hub, member string) string {
	for i := range d.Others {
		if other := &d.Others[i]; d.idOf(other) == hub {
			return fmt.Sprintf("kubectl --context %s describe member %s", other.Context, member)
		}
	}
	return d.describeMember(hub)
}

// viewOf checks how another cluster sees the importing one. That says nothing about what is imported
// from there, but about the other direction.
func (d *diagnosis) viewOf(other *Cluster) {
	own, clusterSet := d.identity()
	local := other.local()
	if local == nil || own == "" || other.Members.Failure != "" {
		return
	}
	id := d.idOf(other)
	base := Check{Context: other.Context, Cluster: id, Result: Warning, elsewhere: true}
	if local.Status.ClusterSet != clusterSet {
		d.add(base.at(Members, "the cluster of context %s is in ClusterSet %q, and not in %q", other.Context, local.Status.ClusterSet, clusterSet).because("WrongClusterSet").do("join it", "kubectl mcs join", docsJoin))
		return
	}
	for i := range other.Members.Value {
		member := &other.Members.Value[i]
		if member.Name != own || member.Status.State == clustersetv1alpha1.MemberConnected || member.Status.State == clustersetv1alpha1.MemberLocal {
			continue
		}
		message := fmt.Sprintf("cluster %s does not import from this one, which is %s there", id, member.Status.State)
		if condition := meta.FindStatusCondition(member.Status.Conditions, clusterset.MemberReachable); condition != nil && condition.Status == metav1.ConditionFalse {
			base.Reason, message = condition.Reason, message+": "+condition.Message
		}
		d.add(base.at(Members, "%s", message).about("member/"+own).do("", fmt.Sprintf("kubectl --context %s describe member %s", other.Context, own), docsReachable))
	}
}

// hosts returns what is known about the hosts of all clusters that answered.
func (d *diagnosis) hosts() []plan.Facts {
	hosts := []plan.Facts{d.Importing.Host}
	for i := range d.Others {
		if d.Others[i].Silent == "" {
			hosts = append(hosts, d.Others[i].Host)
		}
	}
	return hosts
}

// clocks compares the clocks of the clusters, and the ages of exports.
func (d *diagnosis) clocks() {
	for _, member := range d.peers() {
		condition := meta.FindStatusCondition(member.Status.Conditions, clusterset.MemberExportAges)
		if condition != nil && condition.Status == metav1.ConditionFalse {
			d.add(Check{Hop: Clocks, Result: Warning, Cluster: member.Name, Object: "member/" + member.Name, Reason: condition.Reason, Message: condition.Message}.do("", d.describeMember(member.Name), docsAges))
		}
	}
	hosts := d.hosts()
	if len(hosts) < 2 {
		d.add(Check{Hop: Clocks, Result: NotChecked, Message: "clocks are compared only with contexts of other clusters"}.do("name their contexts with --contexts", "kubectl config get-contexts", docsClocks))
		return
	}
	for _, finding := range plan.ClockFindings(hosts) {
		d.found(Clocks, finding, docsClocks)
	}
}

// unneeded reports whether the cluster of a context is one without which the service works.
func (d *diagnosis) unneeded(context string) bool {
	return slices.ContainsFunc(d.Others, func(c Cluster) bool { return c.Context == context && d.severity(d.idOf(&c)) == Warning })
}

// found adds a finding of what is also checked before clusters join.
func (d *diagnosis) found(hop Hop, finding plan.Finding, docs string) {
	result := map[plan.Result]Result{plan.OK: OK, plan.Warning: Warning, plan.Problem: Broken, plan.NotChecked: NotChecked}[finding.Result]
	if result == Broken && slices.ContainsFunc(finding.Contexts, d.unneeded) {
		result = Warning
	}
	check := Check{Hop: hop, Result: result, Context: strings.Join(finding.Contexts, ", "), Message: finding.Message}
	if result != OK {
		check = check.do(finding.Remedy, "", docs)
	}
	d.add(check)
}

// versions compares the versions of Kubernetes and of mcs-apiserver.
func (d *diagnosis) versions() {
	for _, host := range d.hosts() {
		for _, finding := range plan.VersionFindings(host) {
			d.found(Versions, finding, docsProviders)
		}
	}
	versions := map[string][]string{}
	for i := range d.Importing.Members.Value {
		if member := &d.Importing.Members.Value[i]; member.Status.Version != "" {
			versions[member.Status.Version] = append(versions[member.Status.Version], member.Name)
		}
	}
	if len(versions) == 0 {
		return
	}
	var texts []string
	for _, version := range slices.Sorted(maps.Keys(versions)) {
		slices.Sort(versions[version])
		texts = append(texts, fmt.Sprintf("%s in %s", version, strings.Join(versions[version], ", ")))
	}
	check := Check{Hop: Versions, Result: OK, Message: "mcs-apiserver is version " + strings.Join(texts, " and ") + ", kubectl mcs is version " + d.Client}
	if len(versions) > 1 || len(versions[d.Client]) == 0 {
		check = check.with(Warning).do("different versions work together, but not with everything that is new: upgrade one cluster after another", "kubectl mcs version", docsUpgrading)
	}
	d.add(check)
}
