// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package generator

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

// epoch is since when everything exists.
var epoch = metav1.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Holes are what differs between objects of one shape.
const (
	serviceHole   = "%service%"
	sliceHole     = "%slice%"
	uidHole       = "%uid%"
	versionHole   = "%version%"
	endpointsHole = "%endpoints%"
	addressHole   = "%address%"
	changedHole   = "%changed%"
)

var holes = regexp.MustCompile("%[a-z]+%")

// template is an object in JSON with holes. It is encoded once, by the API types: what the
// generator sends is what a member of this release sends.
type template []part

// part is text, and the hole that follows it; the last part has none.
type part struct{ text, hole string }

func newTemplate(object any, replace ...string) (template, error) {
	data, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	text := strings.NewReplacer(replace...).Replace(string(data))
	var parts template
	at := 0
	for _, hole := range holes.FindAllStringIndex(text, -1) {
		parts = append(parts, part{text[at:hole[0]], text[hole[0]:hole[1]]})
		at = hole[1]
	}
	return append(parts, part{text: text[at:]}), nil
}

// templates are those of the objects of one shape.
type templates struct{ service, slice, changedSlice, endpoint template }

func newTemplates(cluster string, shape Shape) (templates, error) {
	service := &clustersetv1alpha1.ExportedService{
		TypeMeta:   metav1.TypeMeta{APIVersion: clustersetv1alpha1.SchemeGroupVersion.String(), Kind: "ExportedService"},
		ObjectMeta: metadata(shape.Namespace, serviceHole, cluster),
		Spec: clustersetv1alpha1.ExportedServiceSpec{
			Cluster: cluster, Service: serviceHole, ExportedAt: epoch, EffectiveAt: epoch, Type: clustersetv1alpha1.ClusterSetIP,
			Ports:           []clustersetv1alpha1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}},
			SessionAffinity: corev1.ServiceAffinityNone, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			InternalTrafficPolicy: ptr.To(corev1.ServiceInternalTrafficPolicyCluster),
		},
	}
	endpoint := discoveryv1.Endpoint{
		Addresses:  []string{addressHole},
		Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true), Serving: ptr.To(true), Terminating: ptr.To(false)},
	}
	slice := &clustersetv1alpha1.ExportedEndpointSlice{
		TypeMeta:   metav1.TypeMeta{APIVersion: clustersetv1alpha1.SchemeGroupVersion.String(), Kind: "ExportedEndpointSlice"},
		ObjectMeta: metadata(shape.Namespace, serviceHole+"-"+sliceHole, cluster),
		Spec: clustersetv1alpha1.ExportedEndpointSliceSpec{
			Cluster: cluster, Service: serviceHole, AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{endpoint},
			Ports: []discoveryv1.EndpointPort{{Name: ptr.To("http"), Protocol: ptr.To(corev1.ProtocolTCP), Port: ptr.To[int32](8080)}},
		},
	}
	slice.Labels = clusterset.SourceLabels(cluster, serviceHole)
	inner, err := json.Marshal(endpoint)
	if err != nil {
		return templates{}, err
	}
	var made templates
	if made.endpoint, err = newTemplate(endpoint); err != nil {
		return made, err
	}
	if made.service, err = newTemplate(service); err != nil {
		return made, err
	}
	if made.slice, err = newTemplate(slice, string(inner), endpointsHole); err != nil {
		return made, err
	}
	slice.Spec.ChangedAt = ptr.To(metav1.NewMicroTime(epoch.Time))
	made.changedSlice, err = newTemplate(slice, string(inner), endpointsHole, `"changedAt":"`+epoch.UTC().Format(metav1.RFC3339Micro), `"changedAt":"`+changedHole)
	return made, err
}

func metadata(namespace, name, cluster string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: clusterset.ObjectName(name, cluster), UID: types.UID(uidHole), ResourceVersion: versionHole,
		Labels: clusterset.SourceLabels(cluster, serviceHole), CreationTimestamp: epoch,
	}
}

// appendObject appends the object that a slice, or a service, is in a state.
func (s *state) appendObject(buffer []byte, of Slice, now version) []byte {
	shape, made := s.shapes[of.Shape], s.templates[of.Shape]
	parts := made.slice
	switch {
	case of.Slice == noSlice:
		parts = made.service
	case now.change != nil:
		parts = made.changedSlice
	}
	for _, part := range parts {
		buffer = append(buffer, part.text...)
		switch part.hole {
		case serviceHole:
			buffer = append(buffer, shape.Prefix...)
			buffer = append(buffer, '-')
			buffer = strconv.AppendInt(buffer, int64(of.Service), 10)
		case sliceHole:
			buffer = strconv.AppendInt(buffer, int64(of.Slice), 10)
		case uidHole:
			buffer = append(buffer, uid(s.number, s.object(of))...)
		case versionHole:
			buffer = strconv.AppendUint(buffer, now.number, 10)
		case changedHole:
			buffer = now.change.made.UTC().AppendFormat(buffer, metav1.RFC3339Micro)
		case endpointsHole:
			buffer = s.appendEndpoints(buffer, of, now)
		}
	}
	return buffer
}

// appendEndpoints appends the endpoints of a slice. A change replaces the address of the first one.
func (s *state) appendEndpoints(buffer []byte, of Slice, now version) []byte {
	shape := s.shapes[of.Shape]
	first := s.firstEndpoint(of)
	for endpoint := range shape.Endpoints {
		if endpoint > 0 {
			buffer = append(buffer, ',')
		}
		address := addressAt(firstAddress + uint32((first+uint64(endpoint))%addresses)) //nolint:gosec // less than 1 << 32
		if endpoint == 0 && now.change != nil {
			address = now.change.Address
		}
		for _, part := range s.templates[of.Shape].endpoint {
			buffer = append(buffer, part.text...)
			if part.hole == addressHole {
				buffer = address.AppendTo(buffer)
			}
		}
	}
	return buffer
}
