// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/controlplane"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/process"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/repository"
)

const (
	homeID     = "home"
	clusterSet = "scale"
	// importing is the namespace of all services that are imported. That of those which are
	// only known does not exist.
	importing, missing = "scale", "elsewhere"
)

// start starts the importing cluster.
func (r *run) start() {
	root := expect.Must(repository.Root())(r.T)
	dir := expect.Must(os.MkdirTemp("", "mcs-scale-"))(r.T)
	r.Cleanup(func() {
		if r.Failed() {
			r.Log("component logs are in", dir)
		} else {
			expect.NoError(r.T, os.RemoveAll(dir))
		}
	})
	plane := expect.Must(controlplane.Start(r.Context(), controlplane.Config{
		Bin: filepath.Join(root, "bin", "kubernetes"), Dir: filepath.Join(dir, "kubernetes"), Realistic: true, Progress: r.progress,
	}))(r.T)
	r.Cleanup(func() { expect.NoError(r.T, plane.Stop()) })
	installed := expect.Must(installation.Install(r.Context(), installation.Config{Plane: plane, Root: root, Dir: dir}))(r.T)
	r.Cleanup(func() { expect.NoError(r.T, installed.Stop()) })
	admin := expect.Must(plane.AdminConfig())(r.T)
	admin.WarningHandler = rest.NoWarnings{}
	r.home = &fleet.Cluster{ID: homeID, Installation: installed, Clientset: expect.Must(versioned.NewForConfig(admin))(r.T)}
	expect.NoError(r.T, r.home.Claim(r.Context(), homeID, clusterSet))
	expect.NoError(r.T, r.home.Namespace(r.Context(), importing))
	r.scraper = r.allowScraping()
	r.slices, r.floor = r.watchSlices(), r.watchFloor()
	r.progress("mcs-apiserver is installed")
}

// allowScraping returns a token with which the metrics of both programs can be read.
func (r *run) allowScraping() string {
	const name = "scale-scraper"
	roles, accounts := r.home.Kubernetes.RbacV1(), r.home.Kubernetes.CoreV1().ServiceAccounts(importing)
	expect.Must(accounts.Create(r.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))(r.T)
	expect.Must(roles.ClusterRoles().Create(r.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}},
	}, metav1.CreateOptions{}))(r.T)
	expect.Must(roles.ClusterRoleBindings().Create(r.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: importing, Name: name}},
	}, metav1.CreateOptions{}))(r.T)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](24 * 3600)}}
	return expect.Must(accounts.CreateToken(r.Context(), name, request, metav1.CreateOptions{}))(r.T).Status.Token
}

// usage is processor time of the programs that are measured.
type usage struct{ apiserver, controller, kube time.Duration }

func (u usage) minus(other usage) usage {
	return usage{u.apiserver - other.apiserver, u.controller - other.controller, u.kube - other.kube}
}

// per returns a part of the usage.
func (u usage) per(divisor float64) usage {
	divide := func(d time.Duration) time.Duration { return time.Duration(float64(d) / divisor) }
	return usage{divide(u.apiserver), divide(u.controller), divide(u.kube)}
}

// usage returns the processor time that was used so far. Programs that are stopped have none.
func (r *run) usage() usage {
	used := usage{kube: expect.Must(process.CPU(r.home.Plane.PID(controlplane.APIServer)))(r.T)}
	if r.home.Controller != nil {
		used.apiserver = expect.Must(process.CPU(r.home.APIServers[0].PID()))(r.T)
		used.controller = expect.Must(process.CPU(r.home.Controller.PID()))(r.T)
	}
	return used
}

// usageDuring returns the processor time per second from now on for a while.
func (r *run) usageDuring(length time.Duration) usage {
	begun, before := time.Now(), r.usage()
	r.pause(length)
	return r.usage().minus(before).per(time.Since(begun).Seconds())
}

// pause waits. What is measured is what happens meanwhile.
func (r *run) pause(length time.Duration) {
	select {
	case <-r.Context().Done():
		r.Fatal(r.Context().Err())
	case <-time.After(length):
	}
}

const (
	// quiet is how much processor time per second all programs together use at most if nothing
	// happens, besides what quietMember members cost.
	quiet, quietMember = 150 * time.Millisecond, 2 * time.Millisecond
	// patience is how long what was caused may take, even on a slow machine.
	patience = 30 * time.Minute
)

// awaitQuiet waits until the consequences of what was done are over: until the programs use
// little, and not less and less.
func (r *run) awaitQuiet() {
	limit := quiet + time.Duration(len(r.joined))*quietMember
	last := time.Duration(0)
	for begun := time.Now(); time.Since(begun) < time.Minute; {
		used := r.usageDuring(2 * time.Second)
		now := used.apiserver + used.controller + used.kube
		if now < limit && last > 0 && now > last*3/4 {
			return
		}
		last = now
	}
	r.progress("the cluster does not become quiet")
}

// await waits until a condition holds, and prints how far it is.
func (r *run) await(what string, condition func(context.Context) error) {
	begun, printed := time.Now(), time.Now()
	for {
		err := condition(r.Context())
		if err == nil {
			r.progress("%s: after %s", what, time.Since(begun).Round(10*time.Millisecond))
			return
		}
		if time.Since(begun) > patience || r.Context().Err() != nil {
			r.Fatalf("%s: %v", what, err)
		}
		if time.Since(printed) > 10*time.Second {
			r.progress("%s: %v", what, err)
			printed = time.Now()
		}
		r.pause(200 * time.Millisecond)
	}
}

func plural(count int, what string) string {
	if count == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", count, what)
}
