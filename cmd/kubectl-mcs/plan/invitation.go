// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterv1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/peertoken"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/secret"
)

// Invitation is what a cluster needs to become a member of a ClusterSet by reading from the
// cluster that invites it.
type Invitation struct {
	// Secret is the member Secret of the inviting cluster, in the invited one.
	Secret *corev1.Secret
	// Claim is the ClusterClaim for the ClusterSet of the inviting cluster.
	Claim *multiclusterv1.ClusterClaim

	// ID is that of the inviting cluster, and Invited that of the invited one.
	ID, Invited string
	// Access is how to reach the inviting cluster, with a token that is valid until Expires.
	Access  Access
	Expires time.Time
}

// NewInvitation returns the invitation of a cluster. The namespace is that of the
// installation in the invited cluster.
func NewInvitation(namespace, clusterSet string, of Membership) (Invitation, error) {
	member, err := NewMemberSecret(namespace, of)
	if err != nil {
		return Invitation{}, err
	}
	return newInvitation(member, NewClaim(multicluster.ClusterSetClaim, clusterSet))
}

// newInvitation returns an invitation, and an error unless both objects are those of one.
func newInvitation(member *corev1.Secret, claim *multiclusterv1.ClusterClaim) (Invitation, error) {
	parsed := secret.Parse(member)
	errs := []error{parsed.Problem, foreign(member)}
	if parsed.Expelled {
		errs = append(errs, fmt.Errorf("annotation %s: the invitation expels the cluster", clusterset.ExpelledAnnotation))
	}
	invitation := Invitation{Secret: member, Claim: claim, ID: parsed.ClusterID, Access: AccessIn(member)}
	if invitation.UID() == "" {
		errs = append(errs, fmt.Errorf("annotation %s is missing, which identifies the inviting cluster: ask for another invitation", clusterset.ClusterUIDAnnotation))
	}
	token, err := peertoken.Parse(parsed.Token)
	invited, ok := clusterset.PeerID(token.Account)
	switch {
	case parsed.Config == nil: // a problem already
	case err != nil || !ok:
		errs = append(errs, errors.New("the kubeconfig has no token of a service account peer-<cluster ID>: ask for another invitation"))
	default:
		invitation.Invited, invitation.Expires = invited, token.Expires
		errs = append(errs, invitation.rebuildKubeconfig(parsed.Token))
	}
	if err := errors.Join(errs...); err != nil {
		return Invitation{}, fmt.Errorf("member Secret %q: %s", member.Name, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return invitation, nil
}

// rebuildKubeconfig replaces the kubeconfig by one of what was checked and is shown. It is an
// error if that is not all of it: a proxy would see the requests, and another server could
// answer them.
func (i Invitation) rebuildKubeconfig(token string) error {
	kubeconfig, err := peerKubeconfig(Membership{ID: i.ID, Access: i.Access, Token: token})
	if err != nil {
		return err
	}
	found, err := clientcmd.Load(i.Secret.Data[clusterset.MemberSecretKubeconfig])
	if err != nil {
		return err
	}
	only, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return err
	}
	for _, cluster := range found.Clusters {
		if cluster.ProxyURL != "" {
			return fmt.Errorf("proxy-url %q in the kubeconfig is not part of an invitation: ask for another one", cluster.ProxyURL)
		}
	}
	if !equality.Semantic.DeepEqual(found, only) {
		return fmt.Errorf("the kubeconfig has more, or other names, than one cluster and one context %q with a server, its name for TLS and its certificate authority, and one user \"peer\" with a token: ask for another invitation", i.ID)
	}
	i.Secret.Data[clusterset.MemberSecretKubeconfig] = kubeconfig
	return nil
}

// foreign returns an error if a member Secret has anything that an invitation does not have:
// what the inviting cluster may do in this one is decided here.
func foreign(member *corev1.Secret) error {
	var errs []error
	if member.Type != clusterset.MemberSecretType {
		errs = append(errs, fmt.Errorf("type is %q, but that of a member Secret is %s", member.Type, clusterset.MemberSecretType))
	}
	for _, part := range []struct {
		what  string
		found []string
		known []string
	}{
		{"key", slices.Sorted(maps.Keys(member.Data)), []string{
			clusterset.MemberSecretClusterID, clusterset.MemberSecretKubeconfig, clusterset.MemberSecretJoinedAt, clusterset.MemberSecretAllowedCIDRs, clusterset.MemberSecretAllocationCIDRs,
		}},
		{"annotation", slices.Sorted(maps.Keys(member.Annotations)), []string{clusterset.ClusterUIDAnnotation}},
		{"label", slices.Sorted(maps.Keys(member.Labels)), []string{multicluster.ManagedByLabel, clusterset.PeerLabel}},
	} {
		for _, found := range part.found {
			if !slices.Contains(part.known, found) {
				errs = append(errs, fmt.Errorf("%s %q is not part of an invitation: remove it, and set it in this cluster if it should have it", part.what, found))
			}
		}
	}
	for key, want := range peerLabels(strings.TrimSpace(string(member.Data[clusterset.MemberSecretClusterID]))) {
		if got := member.Labels[key]; got != want { // members are deleted by their labels
			errs = append(errs, fmt.Errorf("label %q is %q, but that of an invitation is %q", key, got, want))
		}
	}
	metadata := member.ObjectMeta
	metadata.Name, metadata.Namespace, metadata.Labels, metadata.Annotations = "", "", nil, nil
	if !equality.Semantic.DeepEqual(metadata, metav1.ObjectMeta{}) || member.Immutable != nil {
		errs = append(errs, errors.New("only name, namespace, labels and annotations are part of an invitation: remove all other metadata, and immutable"))
	}
	return errors.Join(errs...)
}

// ReadInvitation reads the file of an invitation: YAML or JSON with the member Secret and the
// ClusterClaim, and nothing else.
func ReadInvitation(content []byte) (Invitation, error) {
	var member *corev1.Secret
	var claim *multiclusterv1.ClusterClaim
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Invitation{}, fmt.Errorf("not YAML: %w", err)
		}
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal(document, &kind); err != nil {
			return Invitation{}, fmt.Errorf("not YAML: %w", err)
		}
		switch {
		case kind == metav1.TypeMeta{} && isBlank(document):
			continue
		case kind == NewClaim("", "").TypeMeta && claim == nil:
			claim = &multiclusterv1.ClusterClaim{}
			err = yaml.UnmarshalStrict(document, claim)
		case kind == metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"} && member == nil:
			member = &corev1.Secret{}
			err = yaml.UnmarshalStrict(document, member)
		default:
			return Invitation{}, fmt.Errorf("an object of kind %q in %q is not part of an invitation, which has one Secret and one ClusterClaim", kind.Kind, kind.APIVersion)
		}
		if err != nil {
			return Invitation{}, fmt.Errorf("invalid %s: %w", kind.Kind, err)
		}
	}
	switch {
	case member == nil:
		return Invitation{}, errors.New("no Secret: not an invitation of `kubectl mcs invite`")
	case claim == nil || claim.Name != multicluster.ClusterSetClaim || claim.Spec.Value == "":
		return Invitation{}, fmt.Errorf("no ClusterClaim %s with a value: not an invitation of `kubectl mcs invite`", multicluster.ClusterSetClaim)
	case !equality.Semantic.DeepEqual(claim.ObjectMeta, metav1.ObjectMeta{Name: claim.Name}):
		return Invitation{}, fmt.Errorf("ClusterClaim %s has metadata that is not part of an invitation: remove all but its name", claim.Name)
	}
	for key, value := range member.StringData { // as the API does
		if member.Data == nil {
			member.Data = map[string][]byte{}
		}
		member.Data[key] = []byte(value)
	}
	member.StringData = nil
	return newInvitation(member, claim)
}

// isBlank reports whether a document has nothing but comments.
func isBlank(document []byte) bool {
	for line := range strings.Lines(string(document)) {
		if text := strings.TrimSpace(line); text != "" && text != "---" && !strings.HasPrefix(text, "#") {
			return false
		}
	}
	return true
}

// UID returns the UID of the inviting cluster.
func (i Invitation) UID() string { return i.Secret.Annotations[clusterset.ClusterUIDAnnotation] }

// ClusterSet returns the name of the ClusterSet.
func (i Invitation) ClusterSet() string { return i.Claim.Spec.Value }

// value returns the value of a key of the Secret.
func (i Invitation) value(key string) string { return strings.TrimSpace(string(i.Secret.Data[key])) }

// Objects returns the objects in the order in which they are created: a claim is checked with
// all members.
func (i Invitation) Objects() []runtime.Object { return []runtime.Object{i.Secret, i.Claim} }

// server describes which server is trusted.
func (i Invitation) server() string {
	if i.Access.ServerName == "" {
		return i.Access.Server
	}
	return fmt.Sprintf("%s, with a certificate for %s", i.Access.Server, i.Access.ServerName)
}

// told returns what the invitation says about the inviting cluster, lists without empty items.
func (i Invitation) told() Membership {
	list := func(key string) string { return strings.Join(clusterset.SplitList(i.value(key)), ",") }
	return Membership{
		ID: i.ID, JoinedAt: i.value(clusterset.MemberSecretJoinedAt),
		AllowedCIDRs: list(clusterset.MemberSecretAllowedCIDRs), AllocationCIDRs: list(clusterset.MemberSecretAllocationCIDRs),
	}
}

// Facts returns what a cluster that has no such member trusts when it accepts the invitation,
// as rows of a table. Those of the inviting and of the invited cluster can be compared.
func (i Invitation) Facts() [][]string { return i.facts(i.told()) }

// FactsIn returns what this cluster trusts when it accepts the invitation.
func (i Invitation) FactsIn(own Cluster, options AcceptOptions) [][]string {
	return i.facts(i.recorded(own, options.Replace))
}

func (i Invitation) facts(recorded Membership) [][]string {
	told := i.told()
	describe := func(recorded, told, unset string) string {
		if recorded == told {
			return cmp.Or(told, unset)
		}
		return fmt.Sprintf("%s in this cluster (the invitation says %s)", cmp.Or(recorded, unset), cmp.Or(told, unset))
	}
	return [][]string{
		{"ClusterSet:", i.ClusterSet()},
		{"Server:", i.server()},
		{"Certificate authority:", strings.Join(Fingerprints(i.Access.CA), ", ")},
		{"Token:", fmt.Sprintf("for cluster %s, valid until %s", i.Invited, i.Expires.UTC().Format(time.RFC3339))},
		{"Allowed CIDRs:", describe(recorded.AllowedCIDRs, told.AllowedCIDRs, "all addresses")},
		{"Allocation CIDRs:", describe(recorded.AllocationCIDRs, told.AllocationCIDRs, "those that it claims")},
		{"Joined at:", describe(recorded.JoinedAt, told.JoinedAt, "whenever it claims")},
	}
}

// Fingerprints returns the SHA-256 digests of the certificates in a PEM text.
func Fingerprints(authorities string) []string {
	var fingerprints []string
	for rest := []byte(authorities); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		sum := sha256.Sum256(block.Bytes)
		fingerprints = append(fingerprints, "SHA256:"+hex.EncodeToString(sum[:]))
	}
	if len(fingerprints) == 0 {
		return []string{"those that the system of mcs-apiserver trusts"}
	}
	return fingerprints
}
