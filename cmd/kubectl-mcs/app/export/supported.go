// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

// readSchema returns the OpenAPI document of the API that clusters read from each other. It is requested without
// the hash that the client of client-go adds: mcs-apiserver redirects a request with that of another version, and
// redirects are refused.
func readSchema(ctx context.Context, c *cluster.Cluster) ([]byte, error) {
	return c.MCS.Discovery().RESTClient().Get().AbsPath("/openapi/v3/apis/"+clustersetv1alpha1.SchemeGroupVersion.String()).
		SetHeader("Accept", "application/json").Do(ctx).Raw()
}

// checkSupported returns an error unless mcs-apiserver is known to export to listed clusters only: an earlier version
// ignores the list, and exports to all.
func (o *options) checkSupported(ctx context.Context, c *cluster.Cluster) error {
	document, err := o.schema(ctx, c)
	var supported bool
	if err == nil {
		supported, err = knowsAudience(document)
	}
	switch {
	case err != nil:
		return fmt.Errorf("nothing was changed: whether mcs-apiserver can export to chosen clusters is not known, because its OpenAPI document could not be read; an earlier version would export to all clusters: %w",
			c.WrapError(err, cluster.MCSUserAdvice))
	case !supported:
		return fmt.Errorf("nothing was changed: context %q: mcs-apiserver has a version that cannot export to chosen clusters, and would export to all: upgrade all replicas of mcs-apiserver to the version of this command, or export to all clusters without --to",
			c.Context)
	}
	return nil
}

// knowsAudience reports whether exported Services say which clusters they are for.
func knowsAudience(document []byte) (bool, error) {
	var parsed struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]json.RawMessage `json:"properties"`
			} `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(document, &parsed); err != nil {
		return false, fmt.Errorf("invalid OpenAPI document of %s: %w", clustersetv1alpha1.SchemeGroupVersion, err)
	}
	for name, schema := range parsed.Components.Schemas {
		if strings.HasSuffix(name, ".ExportedServiceSpec") {
			_, known := schema.Properties["audience"]
			return known, nil
		}
	}
	return false, fmt.Errorf("the OpenAPI document of %s does not describe exported Services: try again in a minute if mcs-apiserver has just been installed or upgraded", clustersetv1alpha1.SchemeGroupVersion)
}
