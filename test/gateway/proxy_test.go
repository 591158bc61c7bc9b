// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/netns"
)

const (
	clusterType  = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	endpointType = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
)

// proxy receives the configuration of a proxy of Envoy Gateway, as far as it is about endpoints.
type proxy struct {
	stream discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesClient
	node   *corev3.Node

	mu sync.Mutex
	// subscribed are the Envoy clusters whose endpoints are received.
	subscribed []string
	// assignments are the endpoints by Envoy cluster.
	assignments map[string]*endpointv3.ClusterLoadAssignment
	err         error
}

// connect connects a proxy of a Gateway with the control plane, until the end of the test.
func connect(t *testing.T, namespace, gateway string) *proxy {
	t.Helper()
	config := startEnvoyGateway(t)
	connection := expect.Must(grpc.NewClient(net.JoinHostPort(netns.Address, "18000"), grpc.WithTransportCredentials(credentials.NewTLS(config))))(t)
	ctx, cancel := context.WithCancel(context.Background())
	p := &proxy{node: &corev3.Node{Id: t.Name(), Cluster: namespace + "/" + gateway}, assignments: map[string]*endpointv3.ClusterLoadAssignment{}}
	p.stream = expect.Must(discoveryv3.NewAggregatedDiscoveryServiceClient(connection).StreamAggregatedResources(ctx))(t)
	expect.NoError(t, p.stream.Send(&discoveryv3.DiscoveryRequest{Node: p.node, TypeUrl: clusterType}))
	var receiving sync.WaitGroup
	receiving.Go(p.receive)
	t.Cleanup(func() {
		cancel()
		receiving.Wait()
		_ = connection.Close()
	})
	return p
}

// receive handles responses until the stream ends.
func (p *proxy) receive() {
	for {
		response, err := p.stream.Recv()
		if err == nil {
			err = p.handle(response)
		}
		if err != nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.err = err
			return
		}
	}
}

// handle acknowledges a response, and asks for the endpoints of the clusters in it.
func (p *proxy) handle(response *discoveryv3.DiscoveryResponse) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	acknowledgement := &discoveryv3.DiscoveryRequest{Node: p.node, TypeUrl: response.TypeUrl, VersionInfo: response.VersionInfo, ResponseNonce: response.Nonce}
	switch response.TypeUrl {
	case clusterType:
		names, err := endpointNames(response)
		if err != nil {
			return err
		}
		if err := p.stream.Send(acknowledgement); err != nil || slices.Equal(names, p.subscribed) {
			return err
		}
		maps.DeleteFunc(p.assignments, func(name string, _ *endpointv3.ClusterLoadAssignment) bool { return !slices.Contains(names, name) })
		p.subscribed = names
		return p.stream.Send(&discoveryv3.DiscoveryRequest{Node: p.node, TypeUrl: endpointType, ResourceNames: names})
	case endpointType:
		for _, resource := range response.Resources {
			assignment := &endpointv3.ClusterLoadAssignment{}
			if err := resource.UnmarshalTo(assignment); err != nil {
				return err
			}
			p.assignments[assignment.ClusterName] = assignment
		}
		acknowledgement.ResourceNames = p.subscribed
		return p.stream.Send(acknowledgement)
	}
	acknowledgement.ErrorDetail = &status.Status{Message: "unexpected type"}
	return p.stream.Send(acknowledgement)
}

// endpointNames returns the names under which the endpoints of clusters are found.
func endpointNames(response *discoveryv3.DiscoveryResponse) ([]string, error) {
	var names []string
	for _, resource := range response.Resources {
		cluster := &clusterv3.Cluster{}
		if err := resource.UnmarshalTo(cluster); err != nil {
			return nil, err
		}
		if cluster.GetType() == clusterv3.Cluster_EDS {
			names = append(names, cluster.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// endpoints returns where requests that match an HTTPRoute are sent, as address:port, sorted. Those
// that are not ready have a mark.
func (p *proxy) endpoints(route string) ([]string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []string
	for name, assignment := range p.assignments {
		if !strings.HasPrefix(name, "httproute/"+route+"/") {
			continue
		}
		for _, locality := range assignment.Endpoints {
			for _, endpoint := range locality.LbEndpoints {
				address := endpoint.GetEndpoint().GetAddress().GetSocketAddress()
				text := net.JoinHostPort(address.GetAddress(), strconv.Itoa(int(address.GetPortValue())))
				if endpoint.HealthStatus != corev3.HealthStatus_UNKNOWN && endpoint.HealthStatus != corev3.HealthStatus_HEALTHY {
					text += " " + endpoint.HealthStatus.String()
				}
				found = append(found, text)
			}
		}
	}
	slices.Sort(found)
	return found, p.err
}

// await waits until requests that match an HTTPRoute are sent to exactly these endpoints.
func (p *proxy) await(t *testing.T, route string, want ...string) {
	t.Helper()
	expect.Eventually(t, "endpoints of route "+route, func(context.Context) error {
		found, err := p.endpoints(route)
		if err != nil || !slices.Equal(found, want) {
			return fmt.Errorf("endpoints are %v, want %v, error: %w", found, want, err)
		}
		return nil
	})
}
