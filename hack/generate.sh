#!/usr/bin/env bash
# Generates everything that is derived from the API types: the zz_generated files
# next to them and all of pkg/generated; and docs/reference.md. The generators are pinned in go.mod.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly module=github.com/mcs-apiserver/mcs-apiserver
readonly header=hack/boilerplate.go.txt
readonly hubs=("$module/pkg/apis/about" "$module/pkg/apis/clusterset" "$module/pkg/apis/inventory" "$module/pkg/apis/multicluster")
readonly groups=(about/v1beta1 clusterset/v1alpha1 multicluster/v1 multicluster/v1alpha1 multiclusterx/v1alpha1 multiclusterx/v1beta1)
# Stored, but not served.
readonly stored="$module/pkg/storage/record"
readonly versions=("${groups[@]/#/$module/pkg/apis/}")
# Group versions that the programs use a client of. The others are the same
# objects under another name, and so are the kinds of multiclusterx/v1alpha1
# without a client; tests reach them with the dynamic client.
readonly client_groups=(clusterset/v1alpha1 multicluster/v1 multiclusterx/v1alpha1 multiclusterx/v1beta1)
readonly client_versions=("${client_groups[@]/#/$module/pkg/apis/}")
# External packages whose types the API types refer to; OpenAPI must define these types too.
readonly referenced=(
  k8s.io/api/core/v1 k8s.io/api/discovery/v1 k8s.io/apimachinery/pkg/apis/meta/v1
  k8s.io/apimachinery/pkg/runtime k8s.io/apimachinery/pkg/version
)
readonly generated="$module/pkg/generated"

run() {
  echo "generate: ${1##*/}" >&2
  case $1 in
  ./*) go run "$@" ;;
  *) go tool "$@" ;;
  esac
}

find pkg/apis pkg/storage/record -name 'zz_generated.*' -delete
rm -rf pkg/generated
mkdir -p pkg/generated

run deepcopy-gen --go-header-file "$header" --output-file zz_generated.deepcopy.go "$stored" "${hubs[@]}" "${versions[@]}"
run register-gen --go-header-file "$header" --output-file zz_generated.register.go "${versions[@]}"
run defaulter-gen --go-header-file "$header" --output-file zz_generated.defaults.go "${versions[@]}"
run conversion-gen --go-header-file "$header" --output-file zz_generated.conversion.go "${versions[@]}"
run ./hack/openapi-gen --go-header-file "$header" --output-file zz_generated.openapi.go \
  --output-dir pkg/generated/openapi --output-pkg "$generated/openapi" \
  --output-model-name-file zz_generated.model_name.go --report-filename /dev/null \
  "${referenced[@]/#/--readonly-pkg=}" "${versions[@]}" "${referenced[@]}"
run client-gen --go-header-file "$header" --clientset-name versioned \
  --input-base "$module/pkg/apis" "${client_groups[@]/#/--input=}" \
  --output-dir pkg/generated/clientset --output-pkg "$generated/clientset"
run lister-gen --go-header-file "$header" \
  --output-dir pkg/generated/listers --output-pkg "$generated/listers" "${client_versions[@]}"
run informer-gen --go-header-file "$header" --versioned-clientset-package "$generated/clientset/versioned" \
  --listers-package "$generated/listers" \
  --output-dir pkg/generated/informers --output-pkg "$generated/informers" "${client_versions[@]}"

echo "generate: docs/reference.md" >&2
reference=$(go run ./hack/reference)
echo "$reference" >docs/reference.md
