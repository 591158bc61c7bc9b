// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	netutils "k8s.io/utils/net"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/coredns"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/progress"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/diagnosis"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/exported"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/podprobe"
)

const (
	// attemptTimeout limits how long a lookup or a connection may take.
	attemptTimeout = 5 * time.Second
	// maxEndpoints limits how many endpoints are connected per cluster and port, maxAddresses how many
	// endpoints altogether, and maxServiceAddresses how many IPs and ports of the service, so that the Pod
	// completes in time although no address answers.
	maxEndpoints        = 3
	maxAddresses        = 256
	maxServiceAddresses = 24
)

// see lets a Pod look up the service and connect to it.
func (o *options) see(ctx context.Context, c *cluster.Cluster, facts diagnosis.Facts) diagnosis.Probe {
	path := facts.Importing.Path
	image := o.image
	if deployment := facts.Importing.Deployment.Value; image == "" && deployment != nil {
		image = deployment.Image
	}
	switch {
	case !o.probe:
		return diagnosis.Probe{Omitted: cmp.Or(o.declined, "--probe=false"), Declined: true}
	case path.Namespace.Failure == "" && path.Namespace.Value == nil:
		return diagnosis.Probe{Omitted: fmt.Sprintf("namespace %s does not exist", facts.Namespace), Pointless: true}
	case path.Import.Failure == "" && path.Import.Value == nil && (path.Derived.Failure != "" || path.Derived.Value == nil):
		return diagnosis.Probe{Omitted: "the service is not imported", Pointless: true}
	case image == "":
		return diagnosis.Probe{Omitted: "the image of mcs-controller is not known, because its Deployment could not be read", Remedy: "choose it with --probe-image"}
	}
	targets := newTargets(facts)
	p := newPodProbe(c, facts.Namespace, image, o.timeout)
	p.labels = o.labels
	if deployment := facts.Importing.Deployment.Value; deployment != nil { // also with another image
		p.nodeSelector, p.tolerations = deployment.NodeSelector, deployment.Tolerations
	}
	var results podprobe.Results
	run := func() (err error) {
		results, err = p.run(ctx, targets.request)
		return err
	}
	// What is printed as data is nothing else.
	steps := o.Progress
	if o.output.Format != "" {
		steps = progress.New(o.Streams.ErrOut)
	}
	var probe diagnosis.Probe
	if err := steps.Run(fmt.Sprintf("%s: look up and connect to service %s from a Pod in namespace %s", c.Context, facts.Service, facts.Namespace), run); err != nil {
		probe = omitted(c, err)
	} else {
		probe = targets.seen(results, p.node)
		probe.Labeled = len(o.labels) > 0
	}
	if p.undeleted != nil {
		probe.LeftBehind, probe.Undeleted = p.leftBehind, explain(c, p.undeleted)
	}
	return probe
}

// omitted says why there are no results.
func omitted(c *cluster.Cluster, err error) diagnosis.Probe {
	return diagnosis.Probe{Omitted: explain(c, err)}
}

// explain adds the cause and the remedy to the error of a request. The others say what is wrong.
func explain(c *cluster.Cluster, err error) string {
	if apierrors.IsForbidden(err) || cluster.IsUnreachable(err) || apierrors.IsUnauthorized(err) {
		return cluster.Diagnose(c.Context, err, kubernetesAdvice).Error()
	}
	return err.Error()
}

// targets are what a Pod tries.
type targets struct {
	request podprobe.Request
	// clusters are those of the endpoints, by address.
	clusters map[string]string
}

// newTargets chooses what to try: the name, the IPs of the service, and some endpoints of every cluster,
// as they are in imported EndpointSlices, by TCP. Of many clusters and ports, fewer endpoints are tried.
func newTargets(facts diagnosis.Facts) targets {
	found := targetsWith(facts, maxEndpoints)
	for endpoints := maxEndpoints - 1; endpoints > 0 && len(found.request.Addresses) > maxAddresses; endpoints-- {
		found = targetsWith(facts, endpoints)
	}
	addresses := found.request.Addresses[:min(len(found.request.Addresses), maxAddresses)]
	slices.Sort(addresses)
	found.request.Addresses = slices.Compact(addresses)
	return found
}

// targetsWith returns what to try with a number of endpoints per cluster and port.
func targetsWith(facts diagnosis.Facts, endpoints int) targets {
	path := facts.Importing.Path
	t := targets{clusters: map[string]string{}, request: podprobe.Request{
		Name: fmt.Sprintf("%s.%s.svc.%s", facts.Service, facts.Namespace, coredns.Zone), Timeout: attemptTimeout,
	}}
	ips, ports, headless := reachedBy(path)
	if !headless {
		for _, ip := range ips {
			for _, port := range ports {
				t.request.ServiceAddresses = append(t.request.ServiceAddresses, net.JoinHostPort(ip, strconv.Itoa(int(port))))
			}
		}
		t.request.ServiceAddresses = t.request.ServiceAddresses[:min(len(t.request.ServiceAddresses), maxServiceAddresses)]
	}
	tried := map[string]int{}
	for i := range path.Slices.Value {
		t.addSlice(&path.Slices.Value[i], endpoints, tried)
	}
	return t
}

// reachedBy returns the IPs and TCP ports of the service: those of the import or, if it cannot be read,
// those of the derived Service.
func reachedBy(path diagnosis.Path) (ips []string, ports []int32, headless bool) {
	if imported := path.Import.Value; imported != nil {
		for _, port := range imported.Spec.Ports {
			if cmp.Or(port.Protocol, corev1.ProtocolTCP) == corev1.ProtocolTCP {
				ports = append(ports, port.Port)
			}
		}
		return imported.Spec.IPs, ports, imported.Spec.Type == multiclusterxv1beta1.Headless
	}
	derived := path.Derived.Value
	if derived == nil {
		return nil, nil, true
	}
	for _, port := range derived.Spec.Ports {
		if cmp.Or(port.Protocol, corev1.ProtocolTCP) == corev1.ProtocolTCP {
			ports = append(ports, port.Port)
		}
	}
	for _, ingress := range derived.Status.LoadBalancer.Ingress {
		ips = append(ips, ingress.IP)
	}
	if len(ips) == 0 {
		ips = slices.Clone(derived.Spec.ClusterIPs)
	}
	// The derived Service may have an IP of a family without endpoints, which the import does not have.
	ips = slices.DeleteFunc(ips, func(ip string) bool {
		return !slices.ContainsFunc(path.Slices.Value, func(slice discoveryv1.EndpointSlice) bool {
			return netutils.IsIPv6String(ip) == (slice.AddressType == discoveryv1.AddressTypeIPv6) && exported.CountReady(slice.Endpoints) > 0
		})
	})
	return ips, ports, derived.Spec.ClusterIP == corev1.ClusterIPNone
}

// addSlice adds some ready endpoints of an imported EndpointSlice.
func (t *targets) addSlice(slice *discoveryv1.EndpointSlice, endpoints int, tried map[string]int) {
	source := cmp.Or(slice.Labels[multicluster.SourceClusterLabel], "unknown")
	for _, port := range slice.Ports {
		if port.Port == nil || ptr.Deref(port.Protocol, corev1.ProtocolTCP) != corev1.ProtocolTCP {
			continue
		}
		key := fmt.Sprintf("%s %d %s", source, *port.Port, slice.AddressType)
		for _, endpoint := range slice.Endpoints {
			if tried[key] >= endpoints || !exported.IsReady(endpoint) || len(endpoint.Addresses) == 0 {
				continue
			}
			address := net.JoinHostPort(endpoint.Addresses[0], strconv.Itoa(int(*port.Port)))
			tried[key]++
			t.clusters[address] = source
			t.request.Addresses = append(t.request.Addresses, address)
		}
	}
}

// seen returns what a Pod saw.
func (t targets) seen(results podprobe.Results, node string) diagnosis.Probe {
	probe := diagnosis.Probe{Node: node, Lookup: results.Lookup}
	for _, connection := range results.Connections {
		probe.Connections = append(probe.Connections, diagnosis.Connection{Connection: connection, Cluster: t.clusters[connection.Address]})
	}
	return probe
}
