// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lifecycle tests how the server is installed, registered, restarted,
// killed and removed. Its tests share one control plane with at most one
// installation; each test states the installation that it starts from, so that
// the tests run alone and in any order.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/controlplane"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/netns"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/repository"
)

var (
	root, dir string
	plane     *controlplane.ControlPlane
	// current is the installation in the control plane, or nil.
	current *installation.Installation
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if err := netns.Enter(); err != nil {
		return 1, err
	}
	if root, err = repository.Root(); err != nil {
		return 1, err
	}
	if dir, err = os.MkdirTemp("", "mcs-lifecycle-"); err != nil {
		return 1, err
	}
	defer func() {
		if code == 0 && err == nil {
			err = os.RemoveAll(dir)
		} else {
			fmt.Fprintln(os.Stderr, "component logs are in", dir)
		}
	}()
	plane, err = controlplane.Start(context.Background(), controlplane.Config{
		Bin: filepath.Join(root, "bin", "kubernetes"), Dir: filepath.Join(dir, "kubernetes"),
	})
	if err != nil {
		return 1, err
	}
	code = m.Run()
	if current != nil {
		err = current.Stop()
	}
	return code, errors.Join(err, plane.Stop())
}

// config returns the configuration of a new installation.
func config(t *testing.T) installation.Config {
	t.Helper()
	return installation.Config{Plane: plane, Root: root, Dir: expect.Must(os.MkdirTemp(dir, "installation-"))(t)}
}

// applied returns a new installation whose programs are not running yet. It is removed
// when the test ends.
func applied(t *testing.T) *installation.Installation {
	t.Helper()
	return appliedWith(t, config(t))
}

func appliedWith(t *testing.T, config installation.Config) *installation.Installation {
	t.Helper()
	uninstall(t)
	current = expect.Must(installation.Apply(t.Context(), config))(t)
	t.Cleanup(func() { uninstall(t) })
	return current
}

// embedded returns a new installation whose API is available. It has an embedded etcd,
// whatever the storage of the other tests is.
func embedded(t *testing.T) *installation.Installation {
	t.Helper()
	config := config(t)
	config.StorageFlags = config.EmbeddedStorage()
	installed := appliedWith(t, config)
	expect.NoError(t, installed.StartController(t.Context()))
	expect.NoError(t, installed.StartAPIServers())
	expect.NoError(t, installed.AwaitAvailable(t.Context()))
	return installed
}

// running returns an installation whose API is available: a new one, or the one
// that another test left running.
func running(t *testing.T) *installation.Installation {
	t.Helper()
	if current == nil {
		current = expect.Must(installation.Install(t.Context(), config(t)))(t)
		return current
	}
	expect.NoError(t, current.StartAPIServers())
	expect.NoError(t, current.AwaitAvailable(t.Context()))
	return current
}

// uninstall removes the installation, if one exists, as a user would, and what it stored.
func uninstall(t *testing.T) {
	t.Helper()
	if current == nil {
		return
	}
	installed := current
	current = nil
	expect.NoError(t, installed.Stop())
	ctx := context.Background() // the test may be over
	if output, err := installed.Kubectl(ctx, "delete", "-k", filepath.Join(root, "artifacts", "default"), "--timeout=100s"); err != nil {
		t.Fatalf("delete artifacts/default: %v\n%s", err, output)
	}
	for _, name := range installation.GroupVersions {
		expect.EventuallyAfterTest(t, "removal of APIService "+name, func(ctx context.Context) error {
			_, err := installed.Aggregator.ApiregistrationV1().APIServices().Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return errors.Join(err, errors.New("APIService still exists"))
		})
	}
	expect.EventuallyAfterTest(t, "removal of stored objects", installed.Purge) // policies have an effect for a moment
}

// kubectl runs kubectl as the administrator. It must succeed.
func kubectl(t *testing.T, installed *installation.Installation, args ...string) string {
	t.Helper()
	output, err := installed.Kubectl(t.Context(), args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return output
}

// clientset returns the project's clientset for the administrator.
func clientset(t *testing.T) versioned.Interface {
	t.Helper()
	admin := expect.Must(plane.AdminConfig())(t)
	admin.WarningHandler = rest.NoWarnings{}
	return expect.Must(versioned.NewForConfig(admin))(t)
}
