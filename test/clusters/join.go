// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"fmt"
	"net"

	"k8s.io/client-go/kubernetes"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
	"github.com/mcs-apiserver/mcs-apiserver/test/membership"
)

// Join makes every cluster of the set a member of every other. Their ids are
// their names.
func (s *Set) Join(ctx context.Context, clusterSet string) error {
	clusters, err := s.Clusters()
	if err != nil {
		return err
	}
	for _, cluster := range clusters {
		if err := cluster.claim(ctx, clusterSet); err != nil {
			return fmt.Errorf("make the claims of cluster %s: %w", cluster.Name, err)
		}
		for _, peer := range clusters {
			if peer.Name == cluster.Name {
				continue
			}
			cluster.progress("taking %s for a member", peer.Name)
			if err := cluster.join(ctx, peer); err != nil {
				return fmt.Errorf("make cluster %s a member in cluster %s: %w", peer.Name, cluster.Name, err)
			}
		}
	}
	return nil
}

func (c *Cluster) claim(ctx context.Context, clusterSet string) error {
	config, err := c.Config()
	if err != nil {
		return err
	}
	client, err := versioned.NewForConfig(config)
	if err != nil {
		return err
	}
	return membership.Claim(ctx, client, c.Name, clusterSet)
}

// join makes a peer a member. Nodes and Pods of the clusters reach each other,
// so its kube-apiserver is where its own clients find it.
func (c *Cluster) join(ctx context.Context, peer *Cluster) error {
	own, err := c.kubernetes()
	if err != nil {
		return err
	}
	other, err := peer.kubernetes()
	if err != nil {
		return err
	}
	token, err := membership.Admit(ctx, other, c.Name)
	if err != nil {
		return err
	}
	plane, err := peer.prepare()
	if err != nil {
		return err
	}
	kubeconfig, err := membership.Target{
		ID: peer.Name, Server: "https://" + net.JoinHostPort(peer.NodeIPs()[0], "6443"), CA: plane.CertificateAuthority(),
	}.Kubeconfig(token)
	if err != nil {
		return err
	}
	_, err = membership.Put(ctx, own, peer.Name, map[string][]byte{
		membership.ClusterIDKey: []byte(peer.Name), membership.KubeconfigKey: kubeconfig,
	})
	return err
}

func (c *Cluster) kubernetes() (kubernetes.Interface, error) {
	config, err := c.Config()
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}
