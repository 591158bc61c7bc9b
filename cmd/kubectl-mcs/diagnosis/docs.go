// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnosis

// Sections of the documentation. A test checks that they exist.
const (
	docsDoctor        = "docs/operations.md#why-a-service-does-not-respond"
	docsInstall       = "docs/install.md#checking-the-installation"
	docsMigrate       = "docs/operations.md#migrating-from-crds"
	docsDetached      = "docs/operations.md#detaching-the-api-in-an-emergency"
	docsDown          = "docs/operations.md#when-mcs-apiserver-is-down"
	docsLostStorage   = "docs/operations.md#lost-storage"
	docsReplicas      = "docs/operations.md#replicas"
	docsJoin          = "docs/clustersets.md#joining-clusters"
	docsIdentity      = "docs/clustersets.md#cluster-identity"
	docsRenewing      = "docs/clustersets.md#renewing-and-revoking-credentials"
	docsSilent        = "docs/operations.md#a-member-is-silent"
	docsAccepted      = "docs/conditions.md#condition-accepted"
	docsReachable     = "docs/conditions.md#condition-reachable"
	docsSynced        = "docs/conditions.md#condition-synced"
	docsMutual        = "docs/conditions.md#condition-mutual"
	docsClusterSetIP  = "docs/conditions.md#condition-clustersetip"
	docsClocks        = "docs/operations.md#clocks"
	docsAges          = "docs/clustersets.md#age-of-exports"
	docsUpgrading     = "docs/operations.md#upgrading"
	docsProviders     = "docs/install.md#providers"
	docsExporting     = "docs/clustersets.md#exporting-a-service"
	docsChosen        = "docs/clustersets.md#exporting-to-chosen-clusters"
	docsExports       = "docs/conditions.md#serviceexports"
	docsConflicts     = "docs/clustersets.md#conflicts"
	docsImports       = "docs/clustersets.md#imports"
	docsImportReasons = "docs/conditions.md#serviceimports"
	docsPreference    = "docs/clustersets.md#preferring-clusters"
	docsLimits        = "docs/clustersets.md#limits-of-a-member"
	docsPodNetworks   = "docs/clustersets.md#pod-networks"
	docsHubs          = "docs/clustersets.md#hubs"
	docsDNS           = "docs/clustersets.md#dns"
)
