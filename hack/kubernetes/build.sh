#!/usr/bin/env bash
# Builds the Kubernetes components for the tests from source into bin/kubernetes:
# etcd, kube-apiserver, kube-controller-manager, kube-proxy, kubectl and CoreDNS, at
# the versions in the two go.mod files in this directory. The first build takes about
# ten minutes; later builds are skipped until a version changes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
readonly out=$PWD/../../bin/kubernetes
mkdir -p "$out"

# build NAME DIR LDFLAGS DESCRIPTION builds the package in DIR, unless the existing
# binary was built from the same sources with the same Go version.
build() {
  local name=$1 dir=$2 ldflags=$3 sources
  sources=$( (cd "$dir" && sha256sum ./*.go go.mod go.sum && go env GOVERSION GOARCH && echo "$ldflags") | sha256sum)
  if [[ -x $out/$name && -f $out/.$name.sources && $(<"$out/.$name.sources") == "$sources" ]]; then
    return
  fi
  local started=$SECONDS
  echo "kubernetes: building $name ($4)" >&2
  (cd "$dir" && go build -trimpath -ldflags "-s -w $ldflags" -o "$out/$name" .)
  echo "$sources" >"$out/.$name.sources"
  echo "kubernetes: built $name in $((SECONDS - started)) s" >&2
}

version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
readonly version package=k8s.io/component-base/version
build kube . "-X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=$(cut -d. -f2 <<<"$version") -X $package.gitTreeState=clean" \
  "etcd and Kubernetes $version in one binary, about 8 minutes on 2 cores"
for program in etcd kube-apiserver kube-controller-manager kube-proxy kubectl; do
  ln -sf kube "$out/$program"
done
build coredns coredns "" "about 2 minutes on 2 cores"
