#!/usr/bin/env bash
# Checks that the programs required by the Makefile are installed. As root on a
# Debian-based system, installs missing packages; otherwise lists them and fails.
set -euo pipefail

# command:package:purpose
readonly needed=(
  "gcc:gcc:race detector"
  "git:git:version numbers and make verify"
  "ip:iproute2:networking of test clusters"
  "nft:nftables:kube-proxy of test clusters"
  "iptables:iptables:kube-proxy of test clusters"
  "nsenter:util-linux:running commands in test clusters"
  "chromium:chromium:tests of the page of kubectl mcs ui"
  "curl:curl:Pods of tests and of make demo, and make vulncheck"
  "nc:netcat-openbsd:Pods of tests"
  "nslookup:dnsutils:Pods of tests"
  "python3:python3:Pods of make demo"
  "socat:socat:Pods of tests"
)

if ! command -v go >/dev/null; then
  echo "deps: Go is not installed; install the version in go.mod or newer: https://go.dev/doc/install" >&2
  exit 1
fi

missing=()
for entry in "${needed[@]}"; do
  IFS=: read -r program package purpose <<<"$entry"
  if ! PATH=$PATH:/usr/sbin:/sbin command -v "$program" >/dev/null; then
    echo "deps: $program is not installed (required for: $purpose)" >&2
    missing+=("$package")
  fi
done
((${#missing[@]} == 0)) && exit 0

if [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
  echo "deps: installing ${missing[*]}" >&2
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" libc6-dev >/dev/null
else
  echo "deps: install the missing programs; on Debian, run: sudo apt-get install ${missing[*]}" >&2
  exit 1
fi
