// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package installation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/servingcert"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/process"
)

// Replica is one mcs-apiserver of an installation.
type Replica struct {
	// Process is the most recent process, and nil before the first start.
	*process.Process
	// Address is the only address that the replica listens at.
	Address string
	// Env is added to the environment of the next process.
	Env []string

	name         string
	installation *Installation
}

// addReplicas assigns an address to every replica. The first replica has the
// installation's address, such as 10.250.0.3; further replicas have 10.250.1.3,
// 10.250.2.3 and so on, which no control plane uses.
func (i *Installation) addReplicas() error {
	first, err := netip.ParseAddr(i.address())
	if err != nil || !first.Is4() {
		return fmt.Errorf("control plane address %q must be an IPv4 address", i.address())
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

// URL returns the URL of the replica itself.
func (r *Replica) URL() string { return "https://" + net.JoinHostPort(r.Address, strconv.Itoa(port)) }

// Config returns a client configuration of the administrator for this replica,
// bypassing the kube-apiserver. The replica must have been ready once.
func (r *Replica) Config() (*rest.Config, error) {
	config, err := r.installation.Plane.AdminConfig()
	if err != nil {
		return nil, err
	}
	config.Host = r.URL()
	// Not by name: clients share what they read from a file for minutes, even after it was replaced.
	config.CAFile = ""
	if config.CAData, err = os.ReadFile(filepath.Join(r.installation.certificates(), servingcert.AuthorityFile)); err != nil {
		return nil, err
	}
	config.ServerName = "localhost"
	return config, nil
}

// Health returns the status and the text of a health endpoint, such as
// /readyz/storage.
func (r *Replica) Health(ctx context.Context, path string) (status int, text string, err error) {
	config, err := r.Config()
	if err != nil {
		return 0, "", err
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return 0, "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL()+path, nil)
	if err != nil {
		return 0, "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// Metric returns the value of a metric, whose name includes its labels. The replica must
// have been ready once.
func (r *Replica) Metric(ctx context.Context, name string) (float64, error) {
	status, metrics, err := r.Health(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(metrics) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("%s has no metric %s: %s", r.name, name, http.StatusText(status))
}

// Running reports whether the replica was started and has not exited.
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

// Start starts the replica. AwaitReady waits until it serves.
func (r *Replica) Start() error {
	if r.Running() {
		return fmt.Errorf("%s is already running", r.name)
	}
	i := r.installation
	certificate := servingcert.CertificateFile(i.certificates())
	args := []string{
		"--kubeconfig=" + i.kubeconfig(),
		"--bind-address=" + r.Address, fmt.Sprintf("--secure-port=%d", port),
		"--tls-cert-file=" + certificate, "--tls-private-key-file=" + certificate,
	}
	storage, err := i.storageFlags()
	if err != nil {
		return err
	}
	args = append(args, storage...)
	r.Process, err = process.Start(process.Command{
		Name: r.name,
		Path: filepath.Join(i.Root, "bin", "mcs-apiserver"),
		Args: append(args, i.APIServerFlags...),
		Env:  r.Env,
		Log:  filepath.Join(i.Dir, r.name+".log"),
	})
	return err
}

// AwaitReady waits until the replica reports readiness.
func (r *Replica) AwaitReady(ctx context.Context) error {
	if r.Process == nil {
		return errors.New(r.name + " was never started")
	}
	return r.Await(ctx, patience, func(ctx context.Context) error {
		config, err := r.Config() // fails until mcs-controller has written the CA certificate
		if err != nil {
			return err
		}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
}
