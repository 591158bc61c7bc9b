// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package access loads kubeconfigs of other clusters, which may come from
// untrusted sources.
package access

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// ClientConfig loads a kubeconfig. It rejects everything that would make this
// process run programs, read files, or skip the verification of certificates.
// Responses to requests with the result are limited in size (see WithLimit).
func ClientConfig(kubeconfig []byte) (*rest.Config, error) {
	if len(kubeconfig) == 0 {
		return nil, errors.New("required: the kubeconfig of the member")
	}
	loaded, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("not a kubeconfig: %w", err)
	}
	context, ok := loaded.Contexts[loaded.CurrentContext]
	if !ok || context == nil {
		return nil, fmt.Errorf("current-context %q does not exist", loaded.CurrentContext)
	}
	cluster, auth := loaded.Clusters[context.Cluster], loaded.AuthInfos[context.AuthInfo]
	if cluster == nil || auth == nil {
		return nil, fmt.Errorf("context %q: cluster %q or user %q is missing", loaded.CurrentContext, context.Cluster, context.AuthInfo)
	}
	if err := errors.Join(validateCluster(cluster), validateUser(auth)); err != nil {
		return nil, err
	}
	// Only what was checked: the kubeconfig may contain other contexts.
	only := clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{context.Cluster: cluster},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{context.AuthInfo: auth},
		Contexts:       map[string]*clientcmdapi.Context{loaded.CurrentContext: context},
		CurrentContext: loaded.CurrentContext,
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(only, only.CurrentContext, &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	config.DisableCompression = true
	config.WarningHandler = rest.NoWarnings{} // they would be logged, in any number
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return bounded{noRedirects{next}} })
	return config, nil
}

// noRedirects refuses redirects: a member must not send the credential of this
// process to another server.
type noRedirects struct {
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (s noRedirects) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := s.next.RoundTrip(request)
	if err != nil || response.StatusCode < http.StatusMultipleChoices || response.StatusCode >= http.StatusBadRequest {
		return response, err
	}
	_ = response.Body.Close()
	return nil, fmt.Errorf("response %s is a redirect to %.200q, which is not followed: correct the server in the kubeconfig",
		response.Status, response.Header.Get("Location"))
}

func validateCluster(cluster *clientcmdapi.Cluster) error {
	var errs []error
	if server, err := url.Parse(cluster.Server); err != nil || server.Scheme != "https" || server.Host == "" {
		errs = append(errs, fmt.Errorf("cluster: server %q must be an https URL", cluster.Server))
	}
	if cluster.CertificateAuthority != "" {
		errs = append(errs, fileReference("cluster: certificate-authority", "certificate-authority-data"))
	}
	if cluster.InsecureSkipTLSVerify {
		errs = append(errs, errors.New("cluster: insecure-skip-tls-verify is not allowed, because any server could impersonate the member: set certificate-authority-data"))
	}
	return errors.Join(errs...)
}

func validateUser(auth *clientcmdapi.AuthInfo) error {
	var errs []error
	for name, reference := range map[string]struct{ file, instead string }{
		"client-certificate": {auth.ClientCertificate, "client-certificate-data"},
		"client-key":         {auth.ClientKey, "client-key-data"},
		"tokenFile":          {auth.TokenFile, "token"},
	} {
		if reference.file != "" {
			errs = append(errs, fileReference("user: "+name, reference.instead))
		}
	}
	if auth.Exec != nil {
		errs = append(errs, errors.New("user: exec is not allowed, because it would run a program in the API server: use a token or a client certificate"))
	}
	if auth.AuthProvider != nil {
		errs = append(errs, errors.New("user: auth-provider is not allowed, because it would run a plugin in the API server: use a token or a client certificate"))
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

func fileReference(name, instead string) error {
	return fmt.Errorf("%s is not allowed, because it would read a file of the API server: set %s", name, instead)
}
