// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package coredns

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/corefile"
)

// NodeCache is a NodeLocal DNSCache: CoreDNS on every node, which sends only the names
// of the cluster to the cluster DNS.
type NodeCache struct {
	// Name is the DaemonSet, and ConfigMaps are those that configure it.
	Name       string
	ConfigMaps []string
	// Forwards is true if it sends the names of the zone to the cluster DNS.
	Forwards bool
}

// NodeCaches returns the caches on the nodes of a cluster.
func NodeCaches(ctx context.Context, client kubernetes.Interface) ([]NodeCache, error) {
	list, err := client.AppsV1().DaemonSets(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list DaemonSets in namespace %s: %w", metav1.NamespaceSystem, err)
	}
	var caches []NodeCache
	for i := range list.Items {
		w := ofDaemonSet(&list.Items[i])
		if !w.isNodeCache() {
			continue
		}
		cache := NodeCache{Name: w.Namespace + "/" + w.Name}
		for _, name := range configMapsOf(w) {
			configMap, err := client.CoreV1().ConfigMaps(w.Namespace).Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("get ConfigMap %s/%s: %w", w.Namespace, name, err)
			}
			cache.ConfigMaps = append(cache.ConfigMaps, w.Namespace+"/"+name)
			cache.Forwards = cache.Forwards || forwards(configMap)
		}
		caches = append(caches, cache)
	}
	return caches, nil
}

// isNodeCache reports whether a workload runs NodeLocal DNSCache, whatever its name is.
func (w *Workload) isNodeCache() bool {
	return slices.ContainsFunc(w.Template.Spec.Containers, func(c corev1.Container) bool {
		name, _ := splitImage(c.Image)
		return strings.Contains(path.Base(name), "node-cache")
	})
}

// clusterDNS is what the cache replaces with the IP of the cluster DNS.
const clusterDNS = "__PILLAR__CLUSTER__DNS__"

// forwards reports whether a ConfigMap lets a cache send the names of the zone to the
// cluster DNS: with a server block of its own, with one for all names, or with a stub
// domain.
func forwards(configMap *corev1.ConfigMap) bool {
	var stubDomains map[string][]string
	if json.Unmarshal([]byte(configMap.Data["stubDomains"]), &stubDomains) == nil && len(stubDomains[Zone]) > 0 {
		return true
	}
	for _, text := range configMap.Data {
		parsed, err := corefile.Parse(text)
		if err != nil {
			continue
		}
		if parsed.ForZone(Zone) != nil {
			return true
		}
		if root := parsed.ForZone("."); root != nil && slices.ContainsFunc(root.Named("forward"), func(d corefile.Directive) bool { return slices.Contains(d.Args, clusterDNS) }) {
			return true
		}
	}
	return false
}
