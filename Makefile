# Run `make help` for a list of all targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
export PATH := $(PATH):/usr/sbin:/sbin
# Go compiles packages for all clones at once, and repeats a unit test only if something that it depends on has changed.
export GOFLAGS := $(filter-out -trimpath -buildvcs=false,$(GOFLAGS)) -trimpath -buildvcs=false

# The Kubernetes libraries require a version of the form vX.Y.Z.
VERSION ?= $(shell git describe --tags --match 'v[0-9]*' --dirty 2>/dev/null || echo v0.0.0-$$(git rev-parse --short HEAD 2>/dev/null || echo unknown))
ifneq ($(origin VERSION),file)
ifeq ($(shell [[ '$(VERSION)' =~ ^v[0-9]+\.[0-9]+\.[0-9]+ ]] && echo valid),)
$(error VERSION=$(VERSION) is not valid: it is v followed by a semantic version, for example v0.1.0)
endif
endif
REVISION ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
# Nothing depends on the time of the build but on that of the commit.
export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
version_package := k8s.io/component-base/version
ldflags = -s -w -X $(version_package).gitVersion=$(VERSION) -X $(version_package).gitCommit=$(REVISION) \
	-X $(version_package).buildDate=$(shell date -u -d @$(SOURCE_DATE_EPOCH) +%Y-%m-%dT%H:%M:%SZ)
golangci_lint := go tool -modfile=$(CURDIR)/hack/tools/go.mod golangci-lint
# The product, its tests on clusters, the node agent of the test clusters, tests with gateways and with Prometheus, and what makes and
# checks releases.
modules := . test test/nodeagent test/gateway test/monitoring hack/release hack/chart
with_tests = -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}'

.PHONY: help
help: ## Print this help.
	@grep -hE '^[a-z][a-z0-9-]*:.*## ' Makefile | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

.PHONY: demo
demo: deps build kubernetes test-tools test-images ## Start two clusters with NODES nodes each (default 1) and export a Service from one to the other.
	bin/test/clusterset demo --nodes $(NODES)

CLUSTERS ?= east west
NODES ?= 1
.PHONY: up
up: deps build kubernetes test-tools test-images ## Start the clusters listed in CLUSTERS (default "east west") with NODES nodes each (default 1).
	bin/test/clusterset up --nodes $(NODES) $(CLUSTERS)

.PHONY: down
down: test-tools ## Stop all clusters and remove their data.
	bin/test/clusterset down

.PHONY: fault
fault: test-tools ## Inject a fault, e.g. FAULT="cut east west"; without FAULT, list all faults.
	bin/test/clusterset $(FAULT)

.PHONY: test
# Other fuzz tests take minutes to find anything; unit tests run their seeds.
test: FUZZ = pkg/merge/
test: SECONDS = 180
test: deps lint verify unit alerts fuzz integration e2e chaos ## Run all checks and the tests that CI runs.

.PHONY: test-long
test-long: hostile integration-storages bench monitoring commands ## Run the tests that CI has no time for: attacks of members, all storages, costs of requests, alerts and dashboard with Prometheus, commands of the documentation.

.PHONY: deps
deps: ## Check for required programs; as root on Debian, install missing packages.
	hack/deps.sh

.PHONY: build
build: ## Build mcs-apiserver, mcs-controller and kubectl-mcs into bin/.
	CGO_ENABLED=0 go build -ldflags "$(ldflags)" -o bin/ ./cmd/... # as in images
	install -m 755 cmd/kubectl-mcs/kubectl_complete-mcs bin/

DIST ?= $(CURDIR)/dist
PLATFORMS ?= linux/amd64,linux/arm64
PUSH ?=
define make_parts
	mkdir -p $(DIST)
	go run ./hack/licenses -texts $(DIST)/THIRD_PARTY_LICENSES
	go run -C hack/release . -root $(CURDIR) -dist $(DIST) -version $(VERSION) -revision $(REVISION) -ldflags "$(ldflags)" \
	-platforms $(PLATFORMS) $(if $(PUSH),-prefix $(PUSH))
endef
# Images are pushed after all that was asked for is made and checked.
push = $(if $(and $(PUSH),$(filter images,$1)),push)
.PHONY: images
images: ## Build the images for PLATFORMS (default linux/amd64,linux/arm64) into dist/, and push them to the registry PUSH if set.
	$(make_parts) images $(call push,images)

.PHONY: release
release: ## Make and check all files of a release in dist/: images, manifests, a Helm chart, kubectl-mcs, a manifest for Krew, notes and checksums; PARTS selects some.
	$(if $(filter $(CURDIR)/dist,$(DIST)),rm -rf $(DIST))
	$(make_parts) $(PARTS) $(call push,$(PARTS))
PARTS ?= images manifests chart plugins notes checksums check

.PHONY: test-tools
test-tools: ## Build the programs of test clusters into bin/test/.
	go build -C test -o $(CURDIR)/bin/test/ ./cmd/... go.etcd.io/etcd/etcdctl/v3
	go build -C test/nodeagent -o $(CURDIR)/bin/test/node-agent .

# What images and chart of test clusters are made of: programs as in images, and what packs them.
image_inputs = bin/mcs-apiserver bin/mcs-controller LICENSE go.sum \
	$(sort $(shell find artifacts/default artifacts/chart artifacts/monitoring hack/release hack/licenses -type f -not -name '*_test.go'))
.PHONY: test-images
test-images: build ## Build the images and the chart that test clusters run, for this platform, into bin/release/, unless they are up to date.
	@if ! cmp --quiet bin/release/inputs <(sha256sum $(image_inputs)); then \
		rm -rf bin/release; \
		$(MAKE) release DIST=$(CURDIR)/bin/release PLATFORMS=linux/$$(go env GOARCH) PUSH= PARTS="images chart"; \
		sha256sum $(image_inputs) > bin/release/inputs; \
	fi

.PHONY: helm
helm: ## Build Helm for the tests into bin/test/.
	go build -C hack/chart -o $(CURDIR)/bin/test/ helm.sh/helm/v4/cmd/helm

.PHONY: envoy-gateway
envoy-gateway: ## Build the control plane of Envoy Gateway for the tests into bin/test/; minutes at first.
	CGO_ENABLED=0 go build -C test/gateway -o $(CURDIR)/bin/test/ github.com/envoyproxy/gateway/cmd/envoy-gateway

# Prometheus without service discovery, which would require the libraries of all clouds.
build_prometheus = CGO_ENABLED=0 go build -C test/monitoring -tags remove_all_sd -o $(CURDIR)/bin/test/ github.com/prometheus/prometheus/cmd
.PHONY: promtool
promtool: ## Build promtool, the rule tester of Prometheus, into bin/test/; minutes at first.
	$(build_prometheus)/promtool

.PHONY: prometheus
prometheus: promtool ## Build Prometheus for the tests into bin/test/; minutes at first.
	$(build_prometheus)/prometheus

.PHONY: kubernetes
kubernetes: ## Build the Kubernetes components for the tests into bin/kubernetes/.
	hack/kubernetes/build.sh

.PHONY: generate
generate: ## Regenerate all code that is derived from the API types, and docs/reference.md.
	hack/generate.sh

.PHONY: format
format: ## Format all Go code.
	$(golangci_lint) fmt

.PHONY: lint
lint: ## Check formatting, and run golangci-lint, which includes go vet.
	$(golangci_lint) fmt --diff
	for module in $(modules); do (cd $$module && $(golangci_lint) run --allow-parallel-runners); done

.PHONY: verify
verify: ## Verify generated code, module files, the Helm chart, licenses, requirement IDs and wording; check for known vulnerabilities if possible.
	hack/verify.sh

.PHONY: vulncheck
vulncheck: ## Check for known vulnerabilities; fails if the database of vulnerabilities (GOVULNDB) cannot be reached.
	hack/vulncheck.sh

.PHONY: unit
unit: ## Run the unit tests, those of pkg and of the framework of tests with the race detector.
	go test -race $$(go list $(with_tests) ./pkg/...)
	go test $$(go list $(with_tests) ./cmd/... ./hack/...)
	go test -C test -race ./framework/... ./upstream/...
	go test -C test -count=1 ./framework/documents # Go does not notice changes of files outside of the module
	go test -C hack/release -count=1 ./... # Go does not notice changes of files outside of the module
	go test -C test ./chaos/check ./chaos/history ./chaos/load ./chaos/model ./chaos/nemesis/...
	go test -C test ./bench/report ./bench/scale/generator

.PHONY: alerts
# Not among the unit tests, which make no program first: without a cache, promtool takes minutes.
alerts: promtool ## Test the alerts of artifacts/monitoring, and the queries of its dashboard, with promtool.
	go test -C test/monitoring -count=1 . # Go does not notice changes of files outside of the module

FUZZTIME ?= 3s
FUZZ ?= .
.PHONY: fuzz
fuzz: ## Run the fuzz tests that FUZZ matches (default all) for FUZZTIME (default 3s) each.
	@grep -ro --include=*_test.go '^func Fuzz[A-Za-z0-9]*' cmd pkg | sort | grep -E '$(FUZZ)' | while IFS=: read -r file target; do \
		echo "$${file%/*} $${target#func }"; \
		go test -run '^$$' -fuzz "^$${target#func }$$" -fuzztime $(FUZZTIME) "./$${file%/*}" || exit; \
	done

STORAGE ?= cluster
.PHONY: integration
integration: build kubernetes ## Run the integration tests on real control planes, with STORAGE cluster (default), etcd or embedded.
	STORAGE=$(STORAGE) go test -C test -count=1 -timeout 20m -p $$(($$(nproc) + 1)) $$(go list -C test ./integration/... | grep -v /hostile) # they wait for half of the time

.PHONY: hostile
hostile: build kubernetes ## Let a member that was taken over play attack after attack on real control planes.
	go test -C test -count=1 ./integration/hostile # alone: delays are measured

.PHONY: integration-storages
integration-storages: build kubernetes ## Run the integration tests that depend on the storage with each storage.
	for storage in cluster etcd embedded; do STORAGE=$$storage go test -C test -count=1 ./integration/api ./integration/lifecycle; done
	for storage in cluster etcd; do STORAGE=$$storage go test -C test -count=1 ./integration/replicas; done

.PHONY: bench
bench: build kubernetes ## Measure how fast changes reach another cluster and what they cost, and compare requests and reads with those for ConfigMaps and custom resources; plots are in bin/bench/.
	go test -C test -count=1 -v ./bench
	go test -C test -count=1 -v -timeout 1h ./bench/propagation
	go test -C test -count=1 -v -timeout 2h ./bench/reads

SERVICES ?= 1000
.PHONY: bench-scale
bench-scale: build kubernetes ## Measure delays, memory, starts and processor time with up to 200 members and 50,000 services, of which SERVICES (default 1000) are imported; plots are in bin/bench/.
	go test -C test -count=1 -v -timeout 120m ./bench/scale -services $(SERVICES)

.PHONY: e2e
e2e: build kubernetes test-tools test-images helm ## Run the end-to-end tests on local clusters; skipped with SKIP_E2E=1.
ifdef SKIP_E2E
	@echo "Skipping the end-to-end tests because SKIP_E2E is set."
else
	go test -C test/nodeagent -count=1 ./...
	go test -C test -count=1 -timeout 30m -p 1 ./e2e ./e2e/replicas # one at a time: delays are measured
	go test -C test -count=1 -timeout 30m $$(go list -C test ./e2e/... | grep -vE '/e2e(/replicas|/docs)?$$')
endif

.PHONY: commands
commands: build kubernetes test-tools test-images helm ## Run the commands of README, CONTRIBUTING and docs that no other test runs, on local clusters.
	go test -C test -count=1 -v -timeout 30m ./e2e/docs

.PHONY: gateway
gateway: build kubernetes helm envoy-gateway ## Test ServiceImports as backends of Gateways, with the control plane of Envoy Gateway.
	go test -C test/gateway -count=1 -v -timeout 20m ./...

.PHONY: monitoring
monitoring: build kubernetes prometheus ## Test the alerts and the dashboard of artifacts/monitoring with Prometheus, which scrapes local clusters.
	go test -C test/monitoring -count=1 -timeout 20m ./...

ROUNDS ?= 5
.PHONY: failover
failover: build kubernetes test-tools test-images ## Let replicas fail under load, every way ROUNDS times (default 5), and print what clients notice.
	go test -C test -count=1 -v -timeout 120m ./e2e/replicas -run TestFailingReplicaIsNotNoticed -rounds $(ROUNDS)

SECONDS ?= 300
SEED ?= 0
.PHONY: chaos
chaos: build kubernetes test-tools test-images ## Play faults on three clusters under load for SECONDS (default 300), from SEED (default: a new one), and check what clients saw; SEEDS times with one line each, if set; skipped with SKIP_E2E=1.
ifdef SKIP_E2E
	@echo "Skipping chaos because SKIP_E2E is set."
else ifdef SEEDS
	test/chaos/seeds.sh $(SEEDS) $(SECONDS) $(SEED)
else
	go test -C test -count=1 -v -timeout 60m ./chaos/run -seconds $(SECONDS) -seed $(SEED)
endif

EXPORTS ?= 10000
.PHONY: liveness
liveness: build kubernetes ## Run the long form of the tests of outages: mcs-apiserver down for 5 minutes, links that fail for 2 minutes, EXPORTS (default 10000) exports at once.
	go test -C test -count=1 -v -timeout 60m ./integration/dataplane -run 'EndpointsThatAnswerAreKept|NothingIsWithdrawnWhileEndpointsAnswer' -outage 5m -flapping 2m
	go test -C test -count=1 -v -timeout 60m ./integration/imports -run TestManyExportsArriveAtOnce -surge $(EXPORTS)

DURATION ?= 3m
.PHONY: attack
attack: build kubernetes test-tools test-images ## Let a hostile cluster attack two others for DURATION (default 3m), and print what clients notice.
	go test -C test -count=1 -v -timeout 60m ./e2e -run TestHostileClusterDoesNotInterruptTraffic -attack $(DURATION)

.PHONY: clean
clean: down ## Stop all clusters and remove build output, except for Kubernetes.
	find bin -maxdepth 1 -type f -delete
	rm -rf bin/test bin/release dist
