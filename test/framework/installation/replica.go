// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package installation

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/servingcert"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/process"
)

// Replica is one mcs-apiserver of an installation.
type Replica struct {
	// Process is how it ran last, and nil before its first start.
	*process.Process
	// Address is the only one that it listens at.
	Address string

	name         string
	installation *Installation
}

// addReplicas gives every replica an address. That of the first is the one of
// everything else, say 10.250.0.3; the next ones are at 10.250.1.3, 10.250.2.3
// and so on, where no control plane is.
func (i *Installation) addReplicas() error {
	first, err := netip.ParseAddr(i.address())
	if err != nil || !first.Is4() {
		return fmt.Errorf("the address of the control plane, %q, must be an IPv4 address", i.address())
	}
	for number := range max(i.Replicas, 1) {
		bytes := first.As4()
		bytes[2] += byte(number)
		replica := &Replica{Address: netip.AddrFrom4(bytes).String(), name: name, installation: i}
		if number > 0 {
			replica.name = fmt.Sprintf("%s-%d", name, number+1)
		}
		i.APIServers = append(i.APIServers, replica)
	}
	return nil
}

// URL is where the replica itself listens.
func (r *Replica) URL() string { return "https://" + net.JoinHostPort(r.Address, strconv.Itoa(port)) }

// Config is for clients of the administrator that talk to this replica, and
// not to any one through the kube-apiserver. The replica must have been ready once.
func (r *Replica) Config() (*rest.Config, error) {
	config, err := r.installation.Plane.AdminConfig()
	if err != nil {
		return nil, err
	}
	config.Host = r.URL()
	config.CAData, config.CAFile = nil, filepath.Join(r.installation.certificates(), servingcert.AuthorityFile)
	config.ServerName = "localhost"
	return config, nil
}

// Running says whether the replica was started and has not ended.
func (r *Replica) Running() bool {
	if r.Process == nil {
		return false
	}
	select {
	case <-r.Exited():
		return false
	default:
		return true
	}
}

// Start starts the replica. AwaitReady tells when it serves.
func (r *Replica) Start() error {
	if r.Running() {
		return fmt.Errorf("%s runs already", r.name)
	}
	i := r.installation
	certificate := servingcert.CertificateFile(i.certificates())
	args := []string{
		"--kubeconfig=" + i.kubeconfig(),
		"--bind-address=" + r.Address, fmt.Sprintf("--secure-port=%d", port),
		"--tls-cert-file=" + certificate, "--tls-private-key-file=" + certificate,
	}
	if len(i.APIServers) > 1 {
		args = append(args, "--etcd-servers="+i.Plane.EtcdURL())
	} else {
		args = append(args, "--data-dir="+i.DataDir())
	}
	var err error
	r.Process, err = process.Start(process.Command{
		Name: r.name,
		Path: filepath.Join(i.Root, "bin", "mcs-apiserver"),
		Args: append(args, i.APIServerFlags...),
		Log:  filepath.Join(i.Dir, r.name+".log"),
	})
	return err
}

// AwaitReady waits until the replica says that it is ready.
func (r *Replica) AwaitReady(ctx context.Context) error {
	if r.Process == nil {
		return errors.New(r.name + " was never started")
	}
	return r.Await(ctx, patience, func(ctx context.Context) error {
		config, err := r.Config()
		if err != nil {
			return err
		}
		client, err := kubernetes.NewForConfig(config) // fails until mcs-controller has written the authority
		if err != nil {
			return err
		}
		return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
}
