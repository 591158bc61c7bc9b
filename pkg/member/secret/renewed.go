// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package secret

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

// Renewed are renewed tokens, by what they were renewed from, as Spec.Credential. A token must
// not be sent to any other server, nor outlive a change of the credential.
type Renewed map[string]string

// ParseRenewed reads a Secret with a renewed credential. The result is empty if the Secret is
// nil or has another type.
func ParseRenewed(secret *corev1.Secret) Renewed {
	if secret == nil || secret.Type != clusterset.RenewedSecretType {
		return nil
	}
	renewed := Renewed{}
	for credential, token := range secret.Data {
		renewed[credential] = string(token)
	}
	return renewed
}

// Tokens returns the tokens to use with a member Secret that declares a credential with a
// token, the preferred one first.
func (r Renewed) Tokens(credential, declared string) []string {
	switch renewed := r[credential]; {
	case declared == "":
		return nil // a certificate, which is not renewed
	case renewed == "":
		return []string{declared}
	default:
		return []string{renewed, declared}
	}
}

// credentialVersion is the version of what Credential returns. Renewed tokens are stored by it:
// if it changes without another version, expired tokens that are declared come into use.
const credentialVersion = "v1-"

// Credential returns what identifies the server and the credential of a member Secret,
// without revealing them. How the kubeconfig is written, and its other contexts, do not matter.
func Credential(config *rest.Config) string {
	hash := sha256.New()
	for _, part := range [][]byte{
		[]byte(config.Host), []byte(config.ServerName), config.CAData,
		[]byte(config.BearerToken), config.CertData, config.KeyData, []byte(config.Username), []byte(config.Password),
	} {
		fmt.Fprintf(hash, "%q\n", part)
	}
	return credentialVersion + hex.EncodeToString(hash.Sum(nil))
}
