// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package generator

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterv1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1"
)

// The resources that a member is read by.
const (
	servicesResource = "exportedservices"
	slicesResource   = "exportedendpointslices"
	claimsResource   = "clusterclaims"
	membersResource  = "members"
)

var kinds = map[string]schema.GroupVersionKind{
	servicesResource: clustersetv1alpha1.SchemeGroupVersion.WithKind("ExportedService"),
	slicesResource:   clustersetv1alpha1.SchemeGroupVersion.WithKind("ExportedEndpointSlice"),
	claimsResource:   multiclusterv1.SchemeGroupVersion.WithKind("ClusterClaim"),
	membersResource:  clustersetv1alpha1.SchemeGroupVersion.WithKind("Member"),
}

func resourceOf(of Slice) string {
	if of.Slice == noSlice {
		return servicesResource
	}
	return slicesResource
}

// bufferSize is how much is written at once.
const bufferSize = 64 << 10

// ServeHTTP implements http.Handler.
func (m *Member) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource, query := path.Base(r.URL.Path), r.URL.Query()
	w.Header().Set("Content-Type", "application/json")
	selected, err := m.selects(query)
	_, known := kinds[resource]
	switch watch := query.Get("watch") == "true" || query.Get("watch") == "1"; {
	case !known:
		err = apierrors.NewNotFound(schema.GroupResource{}, r.URL.Path)
	case err != nil:
		err = apierrors.NewBadRequest(err.Error())
	case r.Method != http.MethodGet || watch && resource == membersResource:
		err = apierrors.NewMethodNotSupported(schema.GroupResource{Resource: resource}, r.Method)
	case watch:
		err = m.watch(w, r, resource, selected)
	default:
		err = m.list(w, query, resource, selected)
	}
	if err != nil { // nothing was written
		fail(w, err)
	}
}

// selects reports whether the selectors of a request match what the member has.
func (m *Member) selects(query url.Values) (bool, error) {
	selector, err := labels.Parse(query.Get("labelSelector"))
	if err != nil {
		return false, err
	}
	field, err := fields.ParseSelector(query.Get("fieldSelector"))
	if err != nil {
		return false, err
	}
	return (selector.Empty() || selector.Matches(labels.Set{multicluster.SourceClusterLabel: m.config.ID})) &&
		(field.Empty() || field.Matches(fields.Set{metav1.ObjectNameField: m.config.ID})), nil
}

func fail(w http.ResponseWriter, err error) {
	status := apierrors.NewInternalError(err).Status()
	var known apierrors.APIStatus
	if errors.As(err, &known) {
		status = known.Status()
	}
	status.APIVersion, status.Kind = "v1", "Status"
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status)
}

// page is where a page of a list begins.
type page struct {
	snapshot snapshot
	position int
	limit    int // 0 for no limit
}

// page returns the page that is requested. A list continues only while nothing has changed: the
// generator keeps no earlier states.
func (m *Member) page(query url.Values) (page, error) {
	requested := page{snapshot: m.state.snapshot()}
	var err error
	if limit := query.Get("limit"); limit != "" {
		if requested.limit, err = strconv.Atoi(limit); err != nil {
			return requested, apierrors.NewBadRequest(err.Error())
		}
	}
	if token := query.Get("continue"); token != "" {
		var version uint64
		if _, err := fmt.Sscanf(token, "%d/%d", &version, &requested.position); err != nil {
			return requested, apierrors.NewBadRequest(err.Error())
		}
		if version != requested.snapshot.version {
			return requested, apierrors.NewResourceExpired("the list has changed")
		}
	}
	return requested, nil
}

func (m *Member) list(w http.ResponseWriter, query url.Values, resource string, selected bool) error {
	requested, err := m.page(query)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(w, bufferSize)
	defer out.Flush() //nolint:errcheck // the client is gone
	kind, items, next := kinds[resource], "", ""
	fmt.Fprintf(out, `{"apiVersion":%q,"kind":%q,"items":[`, kind.GroupVersion(), kind.Kind+"List")
	if selected {
		switch resource {
		case membersResource:
			m.mu.Lock()
			items = string(m.entry)
			m.mu.Unlock()
		case claimsResource:
			items = strings.Join(m.claims(), ",")
		default:
			next = m.writeObjects(out, resource, requested)
		}
	}
	fmt.Fprintf(out, `%s],"metadata":{"resourceVersion":"%d","continue":%q}}`, items, requested.snapshot.version, next)
	return nil
}

// writeObjects writes the items of a page, and returns how the list continues.
func (m *Member) writeObjects(out *bufio.Writer, resource string, requested page) (next string) {
	var buffer []byte
	written := 0
	m.state.objects(resource, requested.snapshot, requested.position, func(of Slice, now version) bool {
		if requested.limit > 0 && written == requested.limit {
			next = fmt.Sprintf("%d/%d", requested.snapshot.version, requested.position+written)
			return false
		}
		buffer = buffer[:0]
		if written > 0 {
			buffer = append(buffer, ',')
		}
		written++
		_, err := out.Write(m.state.appendObject(buffer, of, now))
		return err == nil
	})
	return next
}

// claims returns the ClusterClaims of the member.
func (m *Member) claims() []string {
	var claims []string
	for _, claim := range [][2]string{{multicluster.ClusterIDClaim, m.config.ID}, {multicluster.ClusterSetClaim, m.config.ClusterSet}} {
		object := multiclusterv1.ClusterClaim{
			ObjectMeta: metav1.ObjectMeta{Name: claim[0], UID: m.uid(), ResourceVersion: "1", CreationTimestamp: epoch},
			Spec:       multiclusterv1.ClusterClaimSpec{Value: claim[1]},
		}
		object.SetGroupVersionKind(kinds[claimsResource])
		encoded, err := json.Marshal(object)
		if err != nil {
			panic(err) // API types can be encoded
		}
		claims = append(claims, string(encoded))
	}
	return claims
}
