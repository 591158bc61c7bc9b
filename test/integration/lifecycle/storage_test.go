// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// R141: an embedded etcd that lost its data is not served as empty storage. The
// server is alive, and is ready again with the data.
func TestEmptiedStorageIsNotServed(t *testing.T) {
	installed := embedded(t)
	replica := installed.APIServers[0]
	exports := clientset(t).MulticlusterXV1beta1().ServiceExports("default")
	before := expect.Must(exports.Create(t.Context(), &v1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}, metav1.CreateOptions{}))(t)
	backup := installed.DataDir() + "-backup"
	expect.NoError(t, replica.Stop(30*time.Second))
	expect.NoError(t, os.Rename(installed.DataDir(), backup))

	expect.NoError(t, installed.StartAPIServers())
	expect.Eventually(t, "reason in /readyz/storage", func(ctx context.Context) error {
		status, text, err := replica.Health(ctx, "/readyz/storage")
		if err == nil && (status != http.StatusInternalServerError || !strings.Contains(text, "was lost") || !strings.Contains(text, "--accept-storage")) {
			err = fmt.Errorf("got %d %s", status, text)
		}
		return err
	})
	if status, text, err := replica.Health(t.Context(), "/livez"); err != nil || status != http.StatusOK {
		t.Errorf("/livez: %d %s, %v", status, text, err)
	}
	if status, text, err := replica.Health(t.Context(), "/readyz"); err != nil || status == http.StatusOK {
		t.Errorf("/readyz: %d %s, %v", status, text, err)
	}
	host := installed.Kubernetes.Discovery().RESTClient()
	for what, request := range map[string]*rest.Request{
		"list of exports":  host.Get().AbsPath("/apis/multicluster.x-k8s.io/v1beta1/serviceexports"),
		"list of claims":   host.Get().AbsPath("/apis/multicluster.k8s.io/v1/clusterclaims"),
		"list of imports":  host.Get().AbsPath("/apis/multicluster.k8s.io/v1alpha1/serviceimports"),
		"watch of exports": host.Get().AbsPath("/apis/multicluster.k8s.io/v1alpha1/serviceexports").Param("watch", "true"),
		"new export": host.Post().AbsPath("/apis/multicluster.x-k8s.io/v1beta1/namespaces/default/serviceexports").
			Body([]byte(`{"apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceExport", "metadata": {"name": "new"}}`)),
	} {
		expect.Eventually(t, "503 with the reason for a "+what, func(ctx context.Context) error {
			err := request.MaxRetries(0).Do(ctx).Error()
			if err == nil {
				t.Fatalf("%s: lost storage is used", what)
			}
			if _, retry := apierrors.SuggestsClientDelay(err); !apierrors.IsServiceUnavailable(err) || !retry || !strings.Contains(err.Error(), "was lost") {
				return fmt.Errorf("got: %w", err) // the aggregator may not reach the server yet
			}
			return nil
		})
	}

	expect.NoError(t, replica.Stop(30*time.Second))
	expect.NoError(t, errors.Join(os.RemoveAll(installed.DataDir()), os.Rename(backup, installed.DataDir())))
	restart(t, installed)
	if after := expect.Must(exports.Get(t.Context(), "kept", metav1.GetOptions{}))(t); after.UID != before.UID {
		t.Errorf("UID changed from %s to %s", before.UID, after.UID)
	}
	expect.NoError(t, exports.Delete(t.Context(), "kept", metav1.DeleteOptions{}))
}
