#!/usr/bin/env bash
# Checks the programs for known vulnerabilities with govulncheck: those in code that they
# call. Exits with 2 if that could not be checked, because the database of vulnerabilities
# ($GOVULNDB, by default https://vuln.go.dev) cannot be reached.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

database=${GOVULNDB:-https://vuln.go.dev}
if ! problem=$(curl --fail --silent --show-error --location --max-time 20 --output /dev/null "$database/index/db.json" 2>&1); then
  echo "vulncheck: NOT CHECKED for known vulnerabilities: $database cannot be reached ($problem); set GOVULNDB to a mirror" >&2
  exit 2
fi
go tool -modfile=hack/tools/go.mod govulncheck -db "$database" ./cmd/... || exit 1
