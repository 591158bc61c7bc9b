// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package installation installs artifacts/default into a control plane without
// nodes, and runs the two programs of its Pods as plain processes with the
// permissions of their service account.
package installation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregator "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/controlplane"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/netns"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/process"
)

const (
	// Namespace is the namespace of the installation.
	Namespace = "mcs-system"
	name      = "mcs-apiserver"

	port = 6444
	// healthPort is neither the default nor that of the plugin ready of CoreDNS: Envoy Gateway
	// and CoreDNS listen at these ports on all addresses.
	healthPort = 8091
	// metricsOffset is the difference between the ports for metrics and health of an
	// mcs-controller.
	metricsOffset = 100

	patience     = time.Minute
	stopPatience = time.Minute
)

// GroupVersions are the names of the APIServices that mcs-controller registers.
var GroupVersions = []string{"v1.multicluster.k8s.io", "v1alpha1.multicluster.k8s.io", "v1alpha1.multicluster.x-k8s.io", "v1beta1.multicluster.x-k8s.io",
	"v1alpha1.clusterset.mcs-apiserver.io", "v1beta1.about.k8s.io"}

// Config configures an installation.
type Config struct {
	Plane *controlplane.ControlPlane
	// Root is the root of the repository.
	Root string
	// Dir is the directory for data, certificates, kubeconfigs and logs.
	Dir string
	// Replicas is the number of mcs-apiserver replicas, one by default. They share one
	// mcs-controller.
	Replicas int
	// StorageFlags are the storage flags of every mcs-apiserver. By default, the
	// environment variable STORAGE selects the storage: cluster (the default), etcd (that
	// of the control plane) or embedded.
	StorageFlags []string
	// APIServerFlags are additional flags of every mcs-apiserver.
	APIServerFlags []string
	// ControllerFlags are additional flags of mcs-controller.
	ControllerFlags []string
}

// Installation is an installed mcs-apiserver.
type Installation struct {
	Config
	Kubernetes kubernetes.Interface
	Aggregator aggregator.Interface
	// APIServers are the replicas of mcs-apiserver, running or not.
	APIServers []*Replica
	Controller *process.Process
}

// Apply applies the artifacts and prepares what a kubelet would prepare. It
// starts nothing.
func Apply(ctx context.Context, config Config) (*Installation, error) {
	admin, err := config.Plane.AdminConfig()
	if err != nil {
		return nil, err
	}
	i := &Installation{Config: config}
	if err := i.addReplicas(); err != nil {
		return nil, err
	}
	if i.Kubernetes, err = kubernetes.NewForConfig(admin); err != nil {
		return nil, err
	}
	if i.Aggregator, err = aggregator.NewForConfig(admin); err != nil {
		return nil, err
	}
	if output, err := i.Kubectl(ctx, "apply", "-k", filepath.Join(config.Root, "artifacts", "default")); err != nil {
		return nil, fmt.Errorf("apply artifacts/default: %w\n%s", err, output)
	}
	if err := i.reserveRanges(ctx); err != nil {
		return nil, fmt.Errorf("reserve the ClusterSet IP range: %w", err)
	}
	if err := i.writeKubeconfig(ctx); err != nil {
		return nil, fmt.Errorf("create service account token: %w", err)
	}
	return i, i.Publish(ctx, i.APIServers...)
}

// reserveRanges gives the policy that reserves the ClusterSet IP range the ranges of the
// flag, as documented.
func (i *Installation) reserveRanges(ctx context.Context) error {
	for _, flag := range i.APIServerFlags {
		ranges, found := strings.CutPrefix(flag, "--clusterset-ip-range=")
		if !found {
			continue
		}
		patch := fmt.Sprintf(`[{"op": "replace", "path": "/spec/variables/0", "value": {"name": "ranges", "expression": "['%s']"}}]`, strings.ReplaceAll(ranges, ",", "', '"))
		if output, err := i.Kubectl(ctx, "patch", "validatingadmissionpolicy", "clusterset-ip.mcs-apiserver.io", "--type=json", "-p", patch); err != nil {
			return fmt.Errorf("%w\n%s", err, output)
		}
	}
	return nil
}

// Install applies the artifacts, starts the programs, and returns when the API is available.
func Install(ctx context.Context, config Config) (*Installation, error) {
	i, err := Apply(ctx, config)
	if err != nil {
		return nil, err
	}
	config.Plane.Progress("starting mcs-controller")
	if err := i.StartController(ctx); err != nil {
		return nil, errors.Join(err, i.Stop())
	}
	config.Plane.Progress("starting mcs-apiserver")
	if err := i.StartAPIServers(); err != nil {
		return nil, errors.Join(err, i.Stop())
	}
	if err := i.AwaitAvailable(ctx); err != nil {
		return nil, errors.Join(err, i.Stop())
	}
	return i, nil
}

// Stop stops all programs. Stored objects are kept.
func (i *Installation) Stop() error {
	var errs []error
	for _, replica := range i.APIServers {
		if replica.Process != nil {
			errs = append(errs, replica.Stop(stopPatience))
		}
	}
	if i.Controller != nil {
		errs = append(errs, i.StopController())
	}
	return errors.Join(errs...)
}

// StopController stops mcs-controller alone.
func (i *Installation) StopController() error {
	err := i.Controller.Stop(stopPatience)
	i.Controller = nil
	return err
}

// Kubectl runs kubectl as the administrator and returns its combined output.
func (i *Installation) Kubectl(ctx context.Context, args ...string) (string, error) {
	return i.KubectlAs(ctx, i.Plane.AdminKubeconfig(), args...)
}

// KubectlAs runs kubectl with another kubeconfig.
func (i *Installation) KubectlAs(ctx context.Context, kubeconfig string, args ...string) (string, error) {
	output, err := i.KubectlCommand(ctx, kubeconfig, args...).CombinedOutput()
	return string(output), err
}

// KubectlCommand returns a kubectl command that has not been started yet.
func (i *Installation) KubectlCommand(ctx context.Context, kubeconfig string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(i.Plane.Bin, "kubectl"), append([]string{"--kubeconfig=" + kubeconfig}, args...)...)
	cmd.Env = []string{"HOME=" + i.Dir, "PATH=/usr/bin:/bin"}
	return cmd
}

func (i *Installation) kubeconfig() string { return filepath.Join(i.Dir, "mcs-apiserver.kubeconfig") }

func (i *Installation) certificates() string { return filepath.Join(i.Dir, "certificates") }

// DataDir returns the directory of mcs-apiserver's embedded etcd, if it has one.
func (c Config) DataDir() string { return filepath.Join(c.Dir, "data") }

func (i *Installation) writeKubeconfig(ctx context.Context) error {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](24 * 3600)}}
	token, err := i.Kubernetes.CoreV1().ServiceAccounts(Namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return i.Plane.WriteTokenKubeconfig(i.kubeconfig(), name, token.Status.Token)
}

// Publish makes exactly the given replicas the endpoints of the Service, as if
// their Pods were ready.
func (i *Installation) Publish(ctx context.Context, replicas ...*Replica) error {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: name + "-process", Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("https"), Port: ptr.To[int32](port), Protocol: ptr.To(corev1.ProtocolTCP)}},
	}
	for _, replica := range replicas {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{replica.Address}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)},
		})
	}
	slices := i.Kubernetes.DiscoveryV1().EndpointSlices(Namespace)
	_, err := slices.Create(ctx, slice, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = slices.Update(ctx, slice, metav1.UpdateOptions{})
	}
	return err
}

// address returns the address that all programs but the second and further
// replicas listen at.
func (i *Installation) address() string { return cmp.Or(i.Plane.Address, netns.Address) }

// HealthURL returns the URL of mcs-controller's health endpoints.
func (i *Installation) HealthURL() string {
	return "http://" + net.JoinHostPort(i.address(), strconv.Itoa(healthPort))
}

// MetricsURL returns the URL of mcs-controller's metrics.
func (i *Installation) MetricsURL() string {
	return "https://" + net.JoinHostPort(i.address(), strconv.Itoa(healthPort+metricsOffset)) + "/metrics"
}

// StartController starts mcs-controller and returns when it is live.
func (i *Installation) StartController(ctx context.Context) error {
	var err error
	i.Controller, err = i.startController(ctx, "mcs-controller", healthPort, i.certificates(), i.APIServers[0])
	return err
}

// Standby is the name of a second mcs-controller.
const Standby = "mcs-controller-standby"

// StartStandby starts a second mcs-controller beside the last replica, and
// returns when it campaigns for the Lease. The caller must stop it.
func (i *Installation) StartStandby(ctx context.Context) (*process.Process, error) {
	standby, err := i.startController(ctx, Standby, healthPort+1, filepath.Join(i.Dir, "certificates-standby"), i.APIServers[len(i.APIServers)-1])
	if err != nil {
		return standby, err
	}
	return standby, standby.Await(ctx, patience, func(context.Context) error {
		if !strings.Contains(standby.LogTail(math.MaxInt), `lease="`+Namespace+`/mcs-controller"`) {
			return errors.New("does not campaign yet")
		}
		return nil
	})
}

func (i *Installation) startController(ctx context.Context, name string, port int, certificates string, server *Replica) (*process.Process, error) {
	health := net.JoinHostPort(i.address(), strconv.Itoa(port))
	started, err := process.Start(process.Command{
		Name: name,
		Path: filepath.Join(i.Root, "bin", "mcs-controller"),
		Args: append([]string{
			"--kubeconfig=" + i.kubeconfig(), "--namespace=" + Namespace,
			"--serving-cert-dir=" + certificates, "--apiserver=" + server.URL(), "--health-address=" + health,
			"--metrics-address=" + net.JoinHostPort(i.address(), strconv.Itoa(port+metricsOffset)),
		}, i.ControllerFlags...),
		Env: []string{"POD_NAME=" + name},
		Log: filepath.Join(i.Dir, name+".log"),
	})
	if err != nil {
		return nil, err
	}
	return started, started.Await(ctx, patience, controlplane.Healthy("http://"+health+"/livez"))
}

// StartAPIServers starts the replicas that are not running. AwaitAvailable waits
// until they serve.
func (i *Installation) StartAPIServers() error {
	for _, replica := range i.APIServers {
		if replica.Running() {
			continue
		}
		if err := replica.Start(); err != nil {
			return err
		}
	}
	return nil
}

// AwaitAvailable waits until all replicas are ready and the kube-apiserver
// reports all APIServices as available.
func (i *Installation) AwaitAvailable(ctx context.Context) error {
	for _, replica := range i.APIServers {
		if err := replica.AwaitReady(ctx); err != nil {
			return err
		}
	}
	return i.APIServers[0].Await(ctx, patience, func(ctx context.Context) error {
		for _, groupVersion := range GroupVersions {
			apiService, err := i.Aggregator.ApiregistrationV1().APIServices().Get(ctx, groupVersion, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if err := available(apiService); err != nil {
				return err
			}
			// The proxy in the kube-apiserver observes this slightly later.
			path := "/apis/" + apiService.Spec.Group + "/" + apiService.Spec.Version
			if err := i.Kubernetes.Discovery().RESTClient().Get().AbsPath(path).Do(ctx).Error(); err != nil {
				return err
			}
		}
		return i.discoverable()
	})
}

// discoverable returns an error until kubectl finds all resources and their
// documentation: the kube-apiserver aggregates both in the background.
func (i *Installation) discoverable() error {
	documented, err := i.Kubernetes.Discovery().OpenAPIV3().Paths()
	if err != nil {
		return err
	}
	_, resources, err := i.Kubernetes.Discovery().ServerGroupsAndResources()
	if err != nil {
		return err
	}
	for _, apiService := range GroupVersions {
		version, group, _ := strings.Cut(apiService, ".")
		groupVersion := group + "/" + version
		if _, ok := documented["apis/"+groupVersion]; !ok {
			return fmt.Errorf("OpenAPI document of %s is not aggregated yet", groupVersion)
		}
		if !slices.ContainsFunc(resources, func(list *metav1.APIResourceList) bool { return list.GroupVersion == groupVersion }) {
			return fmt.Errorf("resources of %s are not discoverable yet", groupVersion)
		}
	}
	return nil
}

func available(apiService *apiregistrationv1.APIService) error {
	for _, condition := range apiService.Status.Conditions {
		if condition.Type == apiregistrationv1.Available {
			if condition.Status == apiregistrationv1.ConditionTrue {
				return nil
			}
			return fmt.Errorf("APIService %s is unavailable: %s", apiService.Name, condition.Message)
		}
	}
	return fmt.Errorf("APIService %s has no condition Available yet", apiService.Name)
}
