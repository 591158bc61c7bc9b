// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"errors"
	"net"
	"net/netip"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/pki"
)

// ServerName is a name in the certificate of the kube-apiserver, for clients
// that connect to an address that the certificate does not have.
const ServerName = "kubernetes.default.svc"

func (c *ControlPlane) loadOrWriteCredentials() error {
	if authority, err := pki.LoadAuthority(c.Dir, "ca"); err == nil {
		c.authority = authority
		return nil
	}
	var err error
	if c.authority, err = pki.NewAuthority("kubernetes"); err != nil {
		return err
	}
	frontProxy, err := pki.NewAuthority("front-proxy")
	if err != nil {
		return err
	}
	if err := c.IssueServing(false); err != nil {
		return err
	}
	if err := c.Issue("service-account", pki.Subject{Name: "service-accounts"}); err != nil {
		return err
	}
	if err := c.Issue("kubelet-client", pki.Subject{Name: "kube-apiserver"}); err != nil {
		return err
	}
	proxy, err := frontProxy.Issue(pki.Subject{Name: "front-proxy-client"})
	if err != nil {
		return err
	}
	if err := errors.Join(proxy.Write(c.Dir, "front-proxy"), frontProxy.Write(c.Dir, "front-proxy-ca")); err != nil {
		return err
	}
	if err := c.WriteUserKubeconfig(c.AdminKubeconfig(), "admin", "system:masters"); err != nil {
		return err
	}
	// Last, because its presence means that all other files exist.
	return c.authority.Write(c.Dir, "ca")
}

// CertificateAuthority returns the CA certificate of the cluster in PEM.
func (c *ControlPlane) CertificateAuthority() []byte { return c.authority.Cert }

// Issue issues a certificate of the cluster's authority and writes it with its
// key to the files <name>.crt and <name>.key.
func (c *ControlPlane) Issue(name string, subject pki.Subject) error {
	pair, err := c.authority.Issue(subject)
	if err != nil {
		return err
	}
	return pair.Write(c.Dir, name)
}

// IssueServing writes another serving certificate of the kube-apiserver, which is expired or
// not. The kube-apiserver uses it for new connections without a restart.
func (c *ControlPlane) IssueServing(expired bool) error {
	server := pki.Subject{
		Name: "kube-apiserver", Expired: expired,
		DNS: []string{"localhost", ServerName},
		IPs: []net.IP{net.ParseIP(loopback), net.ParseIP(c.Host), net.ParseIP(c.Advertise)},
	}
	for _, cidr := range c.ServiceCIDRs {
		first, err := firstAddress(cidr)
		if err != nil {
			return err
		}
		server.IPs = append(server.IPs, first)
	}
	return c.Issue("server", server)
}

// firstAddress returns the first address of a network, which is the address of
// the Service kubernetes.
func firstAddress(cidr string) (net.IP, error) {
	prefix, err := netip.ParsePrefix(cidr)
	if err != nil {
		return nil, err
	}
	return prefix.Masked().Addr().Next().AsSlice(), nil
}

// AdminKubeconfig returns the kubeconfig file of a cluster administrator.
func (c *ControlPlane) AdminKubeconfig() string { return c.path("kubeconfig") }

// WriteUserKubeconfig writes a kubeconfig for a user with a client certificate.
func (c *ControlPlane) WriteUserKubeconfig(file, user string, groups ...string) error {
	pair, err := c.authority.Issue(pki.Subject{Name: user, Groups: groups})
	if err != nil {
		return err
	}
	return c.writeKubeconfig(file, user, &clientcmdapi.AuthInfo{ClientCertificateData: pair.Cert, ClientKeyData: pair.Key})
}

// WriteTokenKubeconfig writes a kubeconfig with a bearer token.
func (c *ControlPlane) WriteTokenKubeconfig(file, user, token string) error {
	return c.writeKubeconfig(file, user, &clientcmdapi.AuthInfo{Token: token})
}

func (c *ControlPlane) writeKubeconfig(file, user string, auth *clientcmdapi.AuthInfo) error {
	name := filepath.Base(c.Dir)
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: "https://" + c.Endpoint(), CertificateAuthorityData: c.authority.Cert}
	config.AuthInfos[user] = auth
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: user}
	config.CurrentContext = name
	return clientcmd.WriteToFile(*config, file)
}
