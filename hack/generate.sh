#!/usr/bin/env bash
# Writes everything that is derived from the API types: the zz_generated files
# beside them, and all of pkg/generated. The generators are pinned in go.mod.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly module=github.com/mcs-apiserver/mcs-apiserver
readonly header=hack/boilerplate.go.txt
readonly hubs=("$module/pkg/apis/about" "$module/pkg/apis/clusterset" "$module/pkg/apis/multicluster")
readonly groups=(about/v1beta1 clusterset/v1alpha1 multicluster/v1 multicluster/v1alpha1 multiclusterx/v1alpha1 multiclusterx/v1beta1)
readonly versions=("${groups[@]/#/$module/pkg/apis/}")
# Packages of others whose types ours refer to: OpenAPI has to define them too.
readonly referenced=(
  k8s.io/api/core/v1 k8s.io/api/discovery/v1 k8s.io/apimachinery/pkg/api/resource k8s.io/apimachinery/pkg/apis/meta/v1
  k8s.io/apimachinery/pkg/runtime k8s.io/apimachinery/pkg/util/intstr k8s.io/apimachinery/pkg/version
)
readonly generated="$module/pkg/generated"

run() {
  echo "generate: $1" >&2
  go tool "$@"
}

find pkg/apis -name 'zz_generated.*' -delete
rm -rf pkg/generated
mkdir -p pkg/generated

run deepcopy-gen --go-header-file "$header" --output-file zz_generated.deepcopy.go "${hubs[@]}" "${versions[@]}"
run register-gen --go-header-file "$header" --output-file zz_generated.register.go "${versions[@]}"
run defaulter-gen --go-header-file "$header" --output-file zz_generated.defaults.go "${versions[@]}"
run conversion-gen --go-header-file "$header" --output-file zz_generated.conversion.go "${versions[@]}"
run openapi-gen --go-header-file "$header" --output-file zz_generated.openapi.go \
  --output-dir pkg/generated/openapi --output-pkg "$generated/openapi" \
  --output-model-name-file zz_generated.model_name.go --report-filename /dev/null \
  "${referenced[@]/#/--readonly-pkg=}" "${versions[@]}" "${referenced[@]}"

schema=$(mktemp)
trap 'rm -f "$schema"' EXIT
go run ./hack/openapi-schema >"$schema"
run applyconfiguration-gen --go-header-file "$header" --openapi-schema "$schema" \
  --output-dir pkg/generated/applyconfiguration --output-pkg "$generated/applyconfiguration" "${versions[@]}"
run client-gen --go-header-file "$header" --clientset-name versioned \
  --input-base "$module/pkg/apis" "${groups[@]/#/--input=}" \
  --output-dir pkg/generated/clientset --output-pkg "$generated/clientset" \
  --apply-configuration-package "$generated/applyconfiguration"
run lister-gen --go-header-file "$header" \
  --output-dir pkg/generated/listers --output-pkg "$generated/listers" "${versions[@]}"
run informer-gen --go-header-file "$header" --versioned-clientset-package "$generated/clientset/versioned" \
  --listers-package "$generated/listers" \
  --output-dir pkg/generated/informers --output-pkg "$generated/informers" "${versions[@]}"
