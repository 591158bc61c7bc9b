// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/coredns"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/podresolver"
)

// queryTimeout limits how long a Pod may take to answer.
const queryTimeout = 5 * time.Second

// maxQueries limits how many Pods are asked at the same time.
const maxQueries = 16

// podClient sends requests to Pods.
type podClient interface {
	// Ask sends a DNS query.
	Ask(ctx context.Context, namespace, pod, port, name string, kind dnsmessage.Type) (podresolver.Answer, error)
	// Get sends an HTTP request.
	Get(ctx context.Context, namespace, pod, port, path string) ([]byte, error)
}

// forEach calls a function for all Pods at the same time, and returns the results in the
// order of the Pods.
func forEach[T any](pods []string, do func(pod string) T) []T {
	results := make([]T, len(pods))
	slots := make(chan struct{}, maxQueries)
	var group sync.WaitGroup
	for i, pod := range pods {
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			results[i] = do(pod)
		})
	}
	group.Wait()
	return results
}

// ask sends a query to a Pod of CoreDNS.
func (o *options) ask(ctx context.Context, s *coredns.Setup, pod, name string, kind dnsmessage.Type) (podresolver.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	return o.pods.Ask(ctx, s.Workload.Namespace, pod, s.Port, name, kind)
}

// serves reports whether a Pod serves the zone.
func serves(answer podresolver.Answer) bool {
	return answer.Code == dnsmessage.RCodeSuccess && len(answer.Data) > 0
}

// versionName is a name that every zone of the plugin kubernetes has.
const versionName = "dns-version." + coredns.Zone

// observePods asks all Pods that are ready whether they serve the zone.
func (o *options) observePods(ctx context.Context, c *cluster.Cluster, s *coredns.Setup) (podState, error) {
	pods, err := coredns.ListPods(ctx, c.Kubernetes, s)
	if err != nil {
		return podState{}, c.WrapError(err, advice)
	}
	state := podState{Pods: pods}
	if s.Unasked != "" {
		return state, nil
	}
	type result struct {
		answer podresolver.Answer
		err    error
		// forwarded is true if a server to which CoreDNS forwards the query does not answer.
		forwarded bool
	}
	results := forEach(pods.Ready, func(pod string) result {
		asking, cancel := context.WithTimeout(ctx, queryTimeout)
		defer cancel()
		answer, err := o.pods.Ask(asking, s.Workload.Namespace, pod, s.Port, versionName, dnsmessage.TypeTXT)
		return result{answer, err, err != nil && asking.Err() != nil && ctx.Err() == nil}
	})
	for i, r := range results {
		switch {
		case r.err != nil && !r.forwarded:
			state.failures = append(state.failures, c.WrapError(r.err, advice))
		case r.err == nil && serves(r.answer):
			state.serving = append(state.serving, pods.Ready[i])
		default:
			state.silent = append(state.silent, pods.Ready[i])
		}
	}
	return state, nil
}

// stillServing returns an error while a Pod serves the zone.
func (o *options) stillServing(ctx context.Context, c *cluster.Cluster, s *coredns.Setup) error {
	state, err := o.observePods(ctx, c, s)
	switch {
	case err != nil:
		return final(err)
	case !state.RolledOut:
		return fmt.Errorf("%s is being rolled out", s.Workload)
	case len(state.failures) > 0:
		return final(state.failures[0])
	case len(state.serving) > 0:
		return fmt.Errorf("Pod %s serves %s", state.serving[0], coredns.Zone) //nolint:staticcheck // the kind of an object is capitalized
	}
	return nil
}

// findVersion sets the version of CoreDNS if its image does not tell it: to that of a
// flag, or of the metrics of a Pod. It stays unknown if neither is there.
func (o *options) findVersion(ctx context.Context, s *coredns.Setup, pods []string) error {
	if o.coreDNSVersion != "" {
		parsed, err := version.ParseGeneric(o.coreDNSVersion)
		if err != nil {
			return fmt.Errorf("--coredns-version %q: must be a version such as %s", o.coreDNSVersion, coredns.MinVersion)
		}
		s.Version = parsed
		return nil
	}
	if s.Version != nil || s.MetricsPort == "" {
		return nil
	}
	for _, pod := range pods {
		asking, cancel := context.WithTimeout(ctx, queryTimeout)
		metrics, err := o.pods.Get(asking, s.Workload.Namespace, pod, s.MetricsPort, "/metrics")
		cancel()
		if err == nil {
			s.Version = coredns.VersionOfMetrics(metrics)
			return nil
		}
	}
	return nil
}
