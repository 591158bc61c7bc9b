// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/marker"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/opener"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/truncate"
)

// deploymentName is the name of the Deployment that this server belongs to.
const deploymentName = "mcs-apiserver"

// hostCluster is what the cluster knows about its storage.
type hostCluster struct {
	client kubernetes.Interface
	// namespace is the namespace of the installation.
	namespace string
}

var _ opener.Cluster = hostCluster{}

// UID implements opener.Cluster.
func (h hostCluster) UID(ctx context.Context) (types.UID, error) {
	system, err := h.client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return system.UID, nil
}

// versionPeriod is the time between two looks at the version of the cluster, which changes
// while this server is running, and versionTimeout limits one.
const (
	versionPeriod  = time.Minute
	versionTimeout = 10 * time.Second
)

// followVersion reports the version of Kubernetes until the context is canceled. While it is
// not known, the last one stays.
func (h hostCluster) followVersion(ctx context.Context, report func(string)) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		known, err := h.version(ctx)
		if err != nil {
			klog.FromContext(ctx).V(1).Info("Failed to get the version of Kubernetes, retrying", "err", err)
			return
		}
		report(known)
	}, versionPeriod)
}

func (h hostCluster) version(ctx context.Context) (string, error) {
	body, err := h.client.Discovery().RESTClient().Get().AbsPath("/version").Timeout(versionTimeout).Do(ctx).Raw()
	if err != nil {
		return "", err
	}
	var info version.Info
	if err := json.Unmarshal(body, &info); err != nil {
		return "", fmt.Errorf("decode the version of Kubernetes: %w", err)
	}
	return info.GitVersion, nil
}

// Marker implements opener.Cluster.
func (h hostCluster) Marker() marker.Place {
	return marker.ConfigMap{Client: h.client, Namespace: h.namespace, Name: marker.Name}
}

// Traces implements opener.Cluster. mcs-controller writes derived Services and the
// Leases of members only while the API is served. Secrets of members are not
// evidence: they may be applied before the first start.
func (h hostCluster) Traces(ctx context.Context) ([]string, error) {
	options := metav1.ListOptions{LabelSelector: multicluster.ManagedByLabel + "=" + multicluster.ManagedBy, Limit: 2}
	services, err := h.client.CoreV1().Services(metav1.NamespaceAll).List(ctx, options)
	if err != nil {
		return nil, err
	}
	leases, err := h.client.CoordinationV1().Leases(h.namespace).List(ctx, options)
	if err != nil {
		return nil, err
	}
	var traces []string
	for _, service := range services.Items {
		traces = append(traces, "derived Service "+service.Namespace+"/"+service.Name)
	}
	for _, lease := range leases.Items {
		traces = append(traces, "Lease "+lease.Namespace+"/"+lease.Name)
	}
	return traces, nil
}

// Report implements opener.Cluster: it records an Event of the Deployment.
func (h hostCluster) Report(ctx context.Context, reason error) error {
	deployment, err := h.client.AppsV1().Deployments(h.namespace).Get(ctx, deploymentName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	instance, err := os.Hostname()
	if err != nil {
		return err
	}
	_, err = h.client.EventsV1().Events(h.namespace).Create(ctx, &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{GenerateName: deploymentName + "-storage-", Namespace: h.namespace},
		EventTime:  metav1.NowMicro(), ReportingController: "mcs-apiserver", ReportingInstance: instance,
		Type: corev1.EventTypeWarning, Reason: "StorageUnavailable", Action: "OpenStorage",
		Note: truncate.Bytes("Storage cannot be used: "+reason.Error(), truncate.MaxEventNote),
		Regarding: corev1.ObjectReference{
			APIVersion: "apps/v1", Kind: "Deployment", Namespace: deployment.Namespace, Name: deployment.Name, UID: deployment.UID,
		},
	}, metav1.CreateOptions{})
	return err
}
