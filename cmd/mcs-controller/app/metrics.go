// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	genericfilters "k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/server/mux"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/server/routes"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/cert"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/servingcert"
)

const (
	// reviewTimeout is how long the kube-apiserver may take to verify a token, and reviewTTL
	// how long its answers are used, as in mcs-apiserver.
	reviewTimeout = 10 * time.Second
	reviewTTL     = 10 * time.Second
)

// serveMetrics serves /metrics and, unless that is disabled, profiles over TLS, to clients that
// may read them.
func serveMetrics(ctx context.Context, opts *Options, client kubernetes.Interface) error {
	certificate, err := metricsCertificate(opts.ServingCertDir)
	if err != nil {
		return fmt.Errorf("load serving certificate for metrics: %w", err)
	}
	if opts.ServingCertDir != "" {
		legacyregistry.CustomMustRegister(&certificateCollector{certificate: certificate})
	}
	handler, err := guarded(newMetricsMux(opts.Profiling), client)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", opts.MetricsAddress)
	if err != nil {
		return fmt.Errorf("listen for metrics (--metrics-address): %w", err)
	}
	serving := genericapiserver.SecureServingInfo{Listener: listener, Cert: certificate}
	requestsEnded, listenerEnded, err := serving.Serve(handler, 5*time.Second, ctx.Done())
	if err != nil {
		_ = listener.Close()
		return err
	}
	<-listenerEnded
	<-requestsEnded
	return nil
}

// newMetricsMux returns a handler of metrics and, if wanted, profiles.
func newMetricsMux(profiling bool) http.Handler {
	paths := mux.NewPathRecorderMux("mcs-controller")
	paths.Handle("/metrics", legacyregistry.Handler())
	if profiling {
		routes.Profiling{}.Install(paths)
	}
	return paths
}

// metricsCertificate returns the certificate that mcs-controller creates for mcs-apiserver, which
// is in the same Pod, or a self-signed one if it creates none.
func metricsCertificate(dir string) (dynamiccertificates.CertKeyContentProvider, error) {
	if dir != "" {
		file := servingcert.CertificateFile(dir)
		return dynamiccertificates.NewDynamicServingContentFromFiles("metrics", file, file)
	}
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		return nil, err
	}
	return dynamiccertificates.NewStaticCertKeyContent("metrics", certificate, key)
}

// guarded returns a handler that serves requests with a token that the kube-apiserver
// recognizes, of users that it authorizes.
func guarded(handler http.Handler, client kubernetes.Interface) (http.Handler, error) {
	backoff := genericoptions.DefaultAuthWebhookRetryBackoff()
	authenticator, _, err := authenticatorfactory.DelegatingAuthenticatorConfig{
		TokenAccessReviewClient: client.AuthenticationV1(), TokenAccessReviewTimeout: reviewTimeout, WebhookRetryBackoff: backoff, CacheTTL: reviewTTL,
	}.New()
	if err != nil {
		return nil, err
	}
	authorizer, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: client.AuthorizationV1(), AllowCacheTTL: reviewTTL, DenyCacheTTL: reviewTTL, WebhookRetryBackoff: backoff,
	}.New()
	if err != nil {
		return nil, err
	}
	handler = genericfilters.WithAuthorization(handler, authorizer, scheme.Codecs)
	handler = genericfilters.WithAuthentication(handler, authenticator, genericfilters.Unauthorized(scheme.Codecs), nil, nil)
	return genericfilters.WithRequestInfo(handler, &request.RequestInfoFactory{}), nil
}

var certificateExpiryDesc = metrics.NewDesc("mcs_controller_serving_certificate_expiry_timestamp_seconds",
	"When the serving certificate of this Pod expires. None if mcs-controller does not issue it.",
	nil, nil, metrics.ALPHA, "")

// certificateCollector reads when the certificate of mcs-apiserver expires, as it is when the
// metric is read.
type certificateCollector struct {
	metrics.BaseStableCollector
	certificate dynamiccertificates.CertKeyContentProvider
}

// DescribeWithStability implements metrics.StableCollector.
func (*certificateCollector) DescribeWithStability(ch chan<- *metrics.Desc) {
	ch <- certificateExpiryDesc
}

// CollectWithStability implements metrics.StableCollector.
func (c *certificateCollector) CollectWithStability(ch chan<- metrics.Metric) {
	content, _ := c.certificate.CurrentCertKeyContent()
	certificates, err := cert.ParseCertsPEM(content)
	if err != nil {
		return // there is none yet
	}
	ch <- metrics.NewLazyConstMetric(certificateExpiryDesc, metrics.GaugeValue, float64(certificates[0].NotAfter.Unix()))
}
