// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"context"
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/sets"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apiconflict"
)

// ofProperties selects the CRD of ClusterProperties.
func ofProperties(options *metav1.ListOptions) {
	options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, apiconflict.PropertiesCRD).String()
}

// leftToOthers returns a notice if others serve a group-version that gives way. A CRD counts
// whether it was there before or came later: the kube-apiserver does not serve it while the
// APIService is that of mcs-apiserver.
func (c *Controller) leftToOthers(ctx context.Context, gv served, existing *apiregistrationv1.APIService) (string, error) {
	if owner := conflict(existing, c.service); owner.Service != "" {
		return apiconflict.Notice(gv.GroupVersion, owner), nil
	}
	if c.takeOver {
		return "", nil
	}
	definition, err := c.clients.Dynamic.Resource(apiconflict.CRDResource).Get(ctx, apiconflict.PropertiesCRD, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("get CustomResourceDefinition %s: %w", apiconflict.PropertiesCRD, err)
	case !apiconflict.Serves(definition, gv.GroupVersion):
		return "", nil
	}
	return apiconflict.Notice(gv.GroupVersion, apiconflict.Owner{CRD: true}), nil
}

// giveWay deletes the APIServices of mcs-apiserver for the group-versions that are left to
// others. The kube-apiserver then creates those of CRDs.
func (c *Controller) giveWay(ctx context.Context, existing map[served]*apiregistrationv1.APIService, left sets.Set[served]) error {
	registered := maps.Clone(existing)
	maps.DeleteFunc(registered, func(gv served, _ *apiregistrationv1.APIService) bool { return !left.Has(gv) })
	return c.withdraw(ctx, registered)
}
