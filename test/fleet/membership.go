// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/test/controlplane"
	"github.com/mcs-apiserver/mcs-apiserver/test/installation"
	"github.com/mcs-apiserver/mcs-apiserver/test/link"
	"github.com/mcs-apiserver/mcs-apiserver/test/membership"
)

// firstLinkPort is where the links of a cluster begin. The system hands out no
// ports there.
const firstLinkPort = 7000

// JoinAll makes all clusters claim their ids and the ClusterSet, and makes each
// a member of every other.
func (f *Fleet) JoinAll(ctx context.Context, clusterSet string) error {
	for _, c := range f.Clusters {
		if err := c.Claim(ctx, c.ID, clusterSet); err != nil {
			return err
		}
	}
	for _, c := range f.Clusters {
		for _, peer := range f.Clusters {
			if peer == c {
				continue
			}
			if _, err := c.Join(ctx, peer, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// Claim makes the cluster say who it is and which ClusterSet it belongs to.
func (c *Cluster) Claim(ctx context.Context, id, clusterSet string) error {
	if err := membership.Claim(ctx, c.Clientset, id, clusterSet); err != nil {
		return fmt.Errorf("make the claims of cluster %s: %w", c.ID, err)
	}
	return nil
}

// Join makes a peer a member in this cluster and returns the Secret that says
// so: the peer lets a service account of this cluster in, and this cluster gets
// its token. Overrides replace single keys of the Secret; those that are nil
// are left out. Joining again makes a new token and updates the Secret.
func (c *Cluster) Join(ctx context.Context, peer *Cluster, overrides map[string][]byte) (*corev1.Secret, error) {
	token, err := membership.Admit(ctx, peer.Kubernetes, c.ID)
	if err != nil {
		return nil, fmt.Errorf("let cluster %s into cluster %s: %w", c.ID, peer.ID, err)
	}
	kubeconfig, err := c.KubeconfigFor(peer, token)
	if err != nil {
		return nil, err
	}
	data := map[string][]byte{membership.ClusterIDKey: []byte(peer.ID), membership.KubeconfigKey: kubeconfig}
	for key, value := range overrides {
		if value == nil {
			delete(data, key)
		} else {
			data[key] = value
		}
	}
	secret, err := membership.Put(ctx, c.Kubernetes, peer.ID, data)
	if err != nil {
		return nil, fmt.Errorf("make cluster %s a member in cluster %s: %w", peer.ID, c.ID, err)
	}
	return secret, nil
}

// Leave ends the membership of a peer in this cluster, by deleting its Secret.
func (c *Cluster) Leave(ctx context.Context, peerID string) error {
	return c.Kubernetes.CoreV1().Secrets(installation.Namespace).Delete(ctx, membership.SecretName(peerID), metav1.DeleteOptions{})
}

// KubeconfigFor is a kubeconfig with everything inline, with which this cluster
// reaches a peer through the link to it.
func (c *Cluster) KubeconfigFor(peer *Cluster, token string) ([]byte, error) {
	way, err := c.linkTo(peer)
	if err != nil {
		return nil, err
	}
	return membership.Target{
		ID: peer.ID, Server: "https://" + way.Address(), CA: peer.Plane.CertificateAuthority(),
		ServerName: controlplane.ServerName, // the link's address is not in the certificate
	}.Kubeconfig(token)
}

// linkTo is the link to a peer, which is made if there is none yet. It listens
// at this cluster's own address.
func (c *Cluster) linkTo(peer *Cluster) (*link.Link, error) {
	if existing := c.Links[peer.ID]; existing != nil {
		return existing, nil
	}
	made, err := link.New(net.JoinHostPort(c.Plane.Host, strconv.Itoa(firstLinkPort+peer.number)), peer.Plane.Endpoint())
	if err != nil {
		return nil, err
	}
	c.Links[peer.ID] = made
	return made, nil
}
