// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package apiconflict

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/about"
)

// PropertiesCRD is the name of upstream's CRD of ClusterProperties.
const PropertiesCRD = "clusterproperties." + about.GroupName

// GivesWay reports whether mcs-apiserver leaves a group-version to others who serve it. What
// it shows there is a view of objects of another group.
func GivesWay(gv schema.GroupVersion) bool { return gv.Group == about.GroupName }

// Notice returns a message for the administrator: who serves a group-version that mcs-apiserver
// leaves to others, and what to do if it should not.
func Notice(gv schema.GroupVersion, owner Owner) string {
	if owner.CRD {
		return fmt.Sprintf("%s is left to CustomResourceDefinition %s, so that ClusterProperties do not show the ClusterClaims of this cluster; "+
			"to show these instead, start mcs-controller with --take-over-cluster-properties", gv, PropertiesCRD)
	}
	return fmt.Sprintf("%s is left to Service %s, so that ClusterProperties do not show the ClusterClaims of this cluster; "+
		"to show these instead, uninstall that server", gv, owner.Service)
}
