// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package gather

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

// kind is a kind of objects that a bundle contains.
type kind struct {
	// file is the name of the file, without its extension.
	file string
	// path is that of the list.
	path string
	// labels select objects in the server, keep afterwards.
	labels string
	keep   func(object map[string]any) bool
	// reduce returns what a bundle contains of an object.
	reduce func(object map[string]any) map[string]any
	// names are read one by one instead of a list.
	names []string
	// metadata is set if only the metadata are read.
	metadata bool
}

// ofOurs keeps objects that belong to mcs-apiserver by their names or labels.
func ofOurs(object map[string]any) bool {
	metadata, _ := object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	if strings.Contains(name, "mcs-apiserver") || strings.Contains(name, "mcs-controller") {
		return true
	}
	labels, _ := metadata["labels"].(map[string]any)
	for key, value := range labels {
		if strings.Contains(key, "mcs-apiserver.io/") || value == "mcs-apiserver" {
			return true
		}
	}
	return false
}

// isCorefile reports whether a key of a ConfigMap is for a Corefile, or a part that one imports.
func isCorefile(key string) bool {
	return key == "Corefile" || strings.HasSuffix(key, ".server") || strings.HasSuffix(key, ".override")
}

func isProxyConfiguration(key string) bool { return key == "config.conf" || key == "config" }

// onlyData keeps some keys of a ConfigMap, and says which others there are.
func onlyData(keep func(key string) bool) func(map[string]any) map[string]any {
	return func(object map[string]any) map[string]any {
		described := describe(object)
		data, _ := object["data"].(map[string]any)
		shown, _ := described["data"].(map[string]any)
		for key, value := range data {
			if keep(key) {
				text, _ := value.(string)
				if isCorefile(key) {
					text = redactCorefile(text)
				}
				shown[key] = redact(text)
			}
		}
		return described
	}
}

// reports are the ConfigMaps of mcs-apiserver that are for users.
var reports = []string{"mcs-apiserver-detached", "mcs-apiserver-crd-migration"}

func describeConfigMap(object map[string]any) map[string]any {
	metadata, _ := object["metadata"].(map[string]any)
	if name, _ := metadata["name"].(string); slices.Contains(reports, name) {
		return clean(object)
	}
	return describe(object)
}

// kinds returns everything that is read, for an installation in a namespace.
func kinds(namespace, storage string) []kind {
	in := func(namespace, resource string) string { return "/api/v1/namespaces/" + namespace + "/" + resource }
	inGroup := func(group, resource string) string {
		return "/apis/" + group + "/namespaces/" + namespace + "/" + resource
	}
	const clusterSet, multiclusterX = "/apis/clusterset.mcs-apiserver.io/v1alpha1/", "/apis/multicluster.x-k8s.io/v1beta1/"
	return []kind{
		{file: "clusterset/members", path: clusterSet + "members"},
		{file: "clusterset/exportedservices", path: clusterSet + "exportedservices"},
		{file: "clusterset/exportedendpointslices", path: clusterSet + "exportedendpointslices"},
		{file: "clusterset/serviceexports", path: multiclusterX + "serviceexports"},
		{file: "clusterset/serviceimports", path: multiclusterX + "serviceimports"},
		{file: "clusterset/clusterclaims", path: "/apis/multicluster.k8s.io/v1/clusterclaims"},
		{file: "dataplane/services", path: "/api/v1/services", labels: multicluster.ManagedByLabel + "=" + multicluster.ManagedBy},
		{file: "dataplane/endpointslices", path: "/apis/discovery.k8s.io/v1/endpointslices", labels: multicluster.SourceClusterLabel},
		{file: "api/apiservices", path: "/apis/apiregistration.k8s.io/v1/apiservices", keep: isRegistration},
		{file: "api/customresourcedefinitions", path: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", names: []string{
			"serviceexports.multicluster.x-k8s.io", "serviceimports.multicluster.x-k8s.io", "clusterprofiles.multicluster.x-k8s.io", "placementdecisions.multicluster.x-k8s.io", "clusterclaims.multicluster.k8s.io",
			"clusterproperties.about.k8s.io",
		}},
		{file: "api/validatingadmissionpolicies", path: "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", keep: ofOurs},
		{file: "api/validatingadmissionpolicybindings", path: "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings", keep: ofOurs},
		{file: "api/flowschemas", path: "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas", keep: ofOurs},
		{file: "api/prioritylevelconfigurations", path: "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations", keep: ofOurs},
		{file: "rbac/clusterroles", path: "/apis/rbac.authorization.k8s.io/v1/clusterroles", keep: ofOurs},
		{file: "rbac/clusterrolebindings", path: "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", keep: ofOurs},
		{file: "rbac/roles", path: "/apis/rbac.authorization.k8s.io/v1/roles", keep: ofOurs},
		{file: "rbac/rolebindings", path: "/apis/rbac.authorization.k8s.io/v1/rolebindings", keep: ofOurs},
		{file: "installation/deployments", path: inGroup("apps/v1", "deployments")},
		{file: "installation/replicasets", path: inGroup("apps/v1", "replicasets")},
		{file: "installation/statefulsets", path: inGroup("apps/v1", "statefulsets")},
		{file: "installation/pods", path: in(namespace, "pods")},
		{file: "installation/services", path: in(namespace, "services")},
		{file: "installation/serviceaccounts", path: in(namespace, "serviceaccounts")},
		{file: "installation/events", path: in(namespace, "events")},
		{file: "installation/leases", path: inGroup("coordination.k8s.io/v1", "leases")},
		{file: "installation/networkpolicies", path: inGroup("networking.k8s.io/v1", "networkpolicies")},
		{file: "installation/poddisruptionbudgets", path: inGroup("policy/v1", "poddisruptionbudgets")},
		{file: "installation/configmaps", path: in(namespace, "configmaps"), reduce: describeConfigMap},
		{file: "installation/secrets", path: in(namespace, "secrets"), reduce: describeSecret},
		// What is stored may be large, and is the same as what the API serves.
		{file: "storage/configmaps", path: in(storage, "configmaps"), reduce: describe, metadata: true},
		{file: "dns/deployments", path: "/apis/apps/v1/namespaces/kube-system/deployments", labels: "k8s-app=kube-dns"},
		{file: "dns/configmaps", path: in("kube-system", "configmaps"), names: []string{"coredns", "coredns-custom"}, reduce: onlyData(isCorefile)},
		{file: "proxy/configmaps", path: in("kube-system", "configmaps"), names: []string{"kube-proxy", "kube-proxy-config"}, reduce: onlyData(isProxyConfiguration)},
	}
}

// isRegistration keeps the APIServices of our groups, and those that mcs-apiserver serves.
func isRegistration(object map[string]any) bool {
	spec, _ := object["spec"].(map[string]any)
	group, _ := spec["group"].(string)
	return slices.Contains([]string{"clusterset.mcs-apiserver.io", "multicluster.x-k8s.io", "multicluster.k8s.io", "about.k8s.io"}, group) || ofOurs(object)
}

const (
	pageSize = "250"
	// maxPage limits the size of one response.
	maxPage = 16 << 20
)

// page is a part of a list.
type page struct {
	Metadata struct {
		Continue string `json:"continue"`
	} `json:"metadata"`
	Items []map[string]any `json:"items"`
}

// read writes the objects of a kind as a list, one object per line.
func read(ctx context.Context, client rest.Interface, kind kind, out io.Writer) error {
	w := &listWriter{to: out}
	err := readAll(ctx, client, kind, func(object map[string]any) error {
		if kind.keep != nil && !kind.keep(object) {
			return nil
		}
		if kind.reduce != nil {
			return w.add(kind.reduce(object))
		}
		return w.add(clean(object))
	})
	return errors.Join(err, w.end(err == nil))
}

// readAll calls a function for all objects of a kind.
func readAll(ctx context.Context, client rest.Interface, kind kind, do func(map[string]any) error) error {
	if len(kind.names) > 0 {
		var errs []error
		for _, name := range kind.names {
			var object map[string]any
			if err := get(ctx, client.Get().AbsPath(kind.path, name).SetHeader("Accept", "application/json"), &object); cluster.IsObjectNotFound(err) {
				continue // most clusters have only some of them
			} else if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", name, err))
				continue
			}
			if err := do(object); err != nil {
				return err
			}
		}
		return errors.Join(errs...)
	}
	for token := ""; ; {
		request := client.Get().AbsPath(kind.path).Param("limit", pageSize)
		if kind.labels != "" {
			request.Param("labelSelector", kind.labels)
		}
		if token != "" {
			request.Param("continue", token)
		}
		if kind.metadata {
			request.SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
		} else {
			request.SetHeader("Accept", "application/json")
		}
		var found page
		if err := get(ctx, request, &found); err != nil {
			return err
		}
		for _, object := range found.Items {
			if err := cmp.Or(ctx.Err(), do(object)); err != nil {
				return err
			}
		}
		if token = found.Metadata.Continue; token == "" {
			return nil
		}
	}
}

// get reads a response.
func get(ctx context.Context, request *rest.Request, into any) error {
	body, err := request.Stream(ctx)
	if err != nil {
		return err
	}
	defer body.Close()
	return json.NewDecoder(io.LimitReader(body, maxPage)).Decode(into)
}

// listWriter writes objects as a list that kubectl and jq read, also if it is not complete.
type listWriter struct {
	to    io.Writer
	begun bool
}

// listEnd is written even if the limit is reached.
const listEnd = "\n]}\n"

func (w *listWriter) begin() error {
	if w.begun {
		return nil
	}
	w.begun = true
	_, err := io.WriteString(w.to, `{"apiVersion":"v1","kind":"List","items":[`)
	return err
}

func (w *listWriter) add(object map[string]any) error {
	first := !w.begun
	if err := w.begin(); err != nil {
		return err
	}
	line, err := json.Marshal(object)
	if err != nil {
		return err
	}
	separator := ",\n"
	if first {
		separator = "\n"
	}
	_, err = w.to.Write(append([]byte(separator), line...))
	return err
}

// end ends a list. One that could not be read at all is not written.
func (w *listWriter) end(complete bool) error {
	if complete {
		if err := w.begin(); err != nil {
			return err
		}
	}
	if !w.begun {
		return nil
	}
	if limited, ok := w.to.(*limitedWriter); ok {
		limited.left += int64(len(listEnd)) // what does not fit may not break what does
	}
	_, err := io.WriteString(w.to, listEnd)
	return err
}
