#!/usr/bin/env bash
# Sees to it that this machine has what the Makefile needs. As root on a
# Debian-like system missing packages are installed; otherwise they are named.
set -euo pipefail

# command:package:what it is for
readonly needed=(
  "gcc:gcc:tests with the race detector"
  "git:git:version numbers and verification"
  "ip:iproute2:networks of test clusters"
  "nft:nftables:kube-proxy in test clusters"
  "nsenter:util-linux:programs in test clusters"
  "curl:curl:Pods of tests and of the demonstration"
  "nc:netcat-openbsd:Pods of tests"
  "nslookup:dnsutils:Pods of tests"
  "python3:python3:Pods of the demonstration"
  "socat:socat:Pods of tests"
)

if ! command -v go >/dev/null; then
  echo "deps: Go is missing; install the version in go.mod or newer: https://go.dev/doc/install" >&2
  exit 1
fi

missing=()
for entry in "${needed[@]}"; do
  IFS=: read -r program package purpose <<<"$entry"
  if ! PATH=$PATH:/usr/sbin:/sbin command -v "$program" >/dev/null; then
    echo "deps: $program is missing ($purpose)" >&2
    missing+=("$package")
  fi
done
((${#missing[@]} == 0)) && exit 0

if [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
  echo "deps: installing ${missing[*]}" >&2
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" libc6-dev >/dev/null
else
  echo "deps: install them, on Debian with: sudo apt-get install ${missing[*]}" >&2
  exit 1
fi
