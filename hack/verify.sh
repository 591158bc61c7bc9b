#!/usr/bin/env bash
# Fails if derived files are out of date (generated code, module files, the
# requirement IDs that tests refer to, the output of `make help`), if a file
# contains a phrase that this project does not use, if the Helm chart differs from the
# kustomizations, if a module that is linked into
# the programs has a license that is not allowed, or if the programs have a known
# vulnerability. Without access to the database of vulnerabilities, the last line of
# the output says that they were not checked.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
failed=0
unchecked=""

for module in . test test/nodeagent test/gateway test/monitoring hack/kubernetes hack/kubernetes/coredns hack/tools hack/release hack/chart; do
  if ! (cd "$module" && go mod tidy -diff); then
    echo "verify: $module/go.mod is not tidy; run 'go mod tidy' in $module" >&2
    failed=1
  fi
done

# Modules that only tests need belong in test/go.mod. The exception is goleak, which
# unit tests next to the code use to detect leaked goroutines.
needed=$(go list -deps -f '{{with .Module}}{{.Path}}{{end}}' ./... tool | sort -u)
required=$(go list -m -f '{{if not (or .Main .Indirect)}}{{.Path}}{{end}}' all | sort -u)
tests_only=$(comm -13 <(echo "$needed") <(echo "$required") | grep -v '^go.uber.org/goleak$' || true)
if [[ -n $tests_only ]]; then
  echo "verify: go.mod requires modules that only tests need: $tests_only" >&2
  failed=1
fi

go run ./hack/requirements || failed=1
go test -C hack/chart -count=1 ./... || failed=1 # Go does not notice changes of files outside of the module
hack/verify-words.sh || failed=1
go run ./hack/licenses || failed=1
hack/vulncheck.sh || case $? in
  2) unchecked="known vulnerabilities; run 'make vulncheck' with access to the network" ;;
  *) failed=1 ;;
esac

undocumented=$(sed -n 's/^\([a-z][a-z0-9-]*\):\([^#=]*\)$/\1/p' Makefile | sort -u)
if [[ -n $undocumented ]]; then
  echo "verify: targets without a help text in the Makefile: $undocumented" >&2
  failed=1
fi

before=$(mktemp -d)
trap 'rm -rf "$before"' EXIT
cp -r pkg/apis pkg/generated docs/reference.md "$before"
hack/generate.sh
for tree in apis generated; do
  if ! diff -ru "$before/$tree" "pkg/$tree"; then
    echo "verify: pkg/$tree was out of date and has been regenerated; commit the result" >&2
    failed=1
  fi
done
if ! diff -u "$before/reference.md" docs/reference.md; then
  echo "verify: docs/reference.md was out of date and has been regenerated; commit the result" >&2
  failed=1
fi
if [[ -n $unchecked ]]; then
  echo "verify: NOT CHECKED: $unchecked" >&2
fi
exit $failed
