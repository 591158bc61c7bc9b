#!/bin/bash
# Copyright The mcs-apiserver Authors.
# SPDX-License-Identifier: Apache-2.0
#
# seeds.sh RUNS SECONDS SEED plays faults RUNS times, from SEED and the seeds that follow it, or
# from new ones if SEED is 0. It prints one line per run, and fails if a run does.
set -euo pipefail
cd "$(dirname "$0")/run"
logs=$(mktemp -d)
go test -c -o "$logs/chaos.test" .
failed=0
for ((i = 0; i < $1; i++)); do
	log=$logs/$i.log
	"$logs/chaos.test" -test.v -test.timeout 60m -seconds "$2" -seed "$(($3 == 0 ? 0 : $3 + i))" >"$log" 2>&1 || failed=$((failed + 1))
	grep '^seed [0-9]*: ' "$log" || echo "no result: see $log"
done
echo "$failed of $1 runs failed; the output is in $logs"
[[ $failed == 0 ]]
