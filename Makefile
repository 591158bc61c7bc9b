# One target per thing that a contributor wants to do; `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
export PATH := $(PATH):/usr/sbin:/sbin

# The Kubernetes libraries insist on v and three numbers.
VERSION ?= $(shell git describe --tags --match 'v[0-9]*' --dirty 2>/dev/null || echo v0.0.0-$$(git rev-parse --short HEAD 2>/dev/null || echo unknown))
version_package := k8s.io/component-base/version
ldflags := -X $(version_package).gitVersion=$(VERSION) -X $(version_package).gitCommit=$(shell git rev-parse HEAD 2>/dev/null)
golangci_lint := go tool -modfile=$(CURDIR)/hack/tools/go.mod golangci-lint
# The product, its tests on clusters, and the node agent of the test clusters.
modules := . test test/nodeagent
unit_packages = $$(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...)

.PHONY: help
help: ## Print this list.
	@grep -hE '^[a-z][a-z0-9-]*:.*## ' Makefile | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

.PHONY: demo
demo: deps build kubernetes test-tools ## Start two clusters, export a Service in one of them, and show it.
	bin/test/clusterset demo

CLUSTERS ?= east west
.PHONY: up
up: deps build kubernetes test-tools ## Start the clusters CLUSTERS ("east west") on this machine.
	bin/test/clusterset up $(CLUSTERS)

.PHONY: down
down: test-tools ## End all clusters and remove everything that belonged to them.
	bin/test/clusterset down

.PHONY: fault
fault: test-tools ## Disturb clusters, as in FAULT="cut east west"; without FAULT, list what there is.
	bin/test/clusterset $(FAULT)

.PHONY: test
test: deps lint verify unit fuzz integration e2e ## Run everything that CI runs.

.PHONY: deps
deps: ## Install missing Debian packages as root, or say which are missing.
	hack/deps.sh

.PHONY: build
build: ## Build our programs into bin/.
	go build -ldflags "$(ldflags)" -o bin/ ./cmd/...
	install -m 755 cmd/kubectl-mcs/kubectl_complete-mcs bin/

.PHONY: test-tools
test-tools: ## Build what test clusters consist of besides Kubernetes.
	go build -C test -o $(CURDIR)/bin/test/clusterset ./cmd/clusterset
	go build -C test/nodeagent -o $(CURDIR)/bin/test/node-agent .

.PHONY: kubernetes
kubernetes: ## Build the Kubernetes to test against into bin/kubernetes/, once.
	hack/kubernetes/build.sh

.PHONY: generate
generate: ## Write all code that is derived from the API types.
	hack/generate.sh

.PHONY: format
format: ## Format all Go code.
	$(golangci_lint) fmt

.PHONY: lint
lint: ## Check formatting, vet, and run the linters.
	$(golangci_lint) fmt --diff
	for module in $(modules); do (cd $$module && go vet ./... && $(golangci_lint) run); done

.PHONY: verify
verify: ## Fail if generated code or module files are out of date.
	hack/verify.sh

.PHONY: unit
unit: ## Run the unit tests with the race detector.
	go test -race $(unit_packages)
	go test -C test -race ./framework/... ./upstream/...

FUZZTIME ?= 60s
.PHONY: fuzz
fuzz: ## Fuzz decoding and validation, and the merge, for FUZZTIME (60s) each.
	go test -run '^$$' -fuzz FuzzDecodeAndValidate -fuzztime $(FUZZTIME) ./pkg/apis/install
	go test -run '^$$' -fuzz FuzzMerge -fuzztime $(FUZZTIME) ./pkg/merge
	go test -run '^$$' -fuzz FuzzValidate -fuzztime $(FUZZTIME) ./pkg/apis/clusterset/validation

.PHONY: integration
integration: build kubernetes ## Run the integration tests against real control planes.
	go test -C test -count=1 ./integration/...

.PHONY: e2e
e2e: build kubernetes test-tools ## Run the end-to-end tests on whole clusters; SKIP_E2E=1 leaves them out.
ifdef SKIP_E2E
	@echo "The end-to-end tests are left out, because SKIP_E2E is set."
else
	go test -C test/nodeagent -count=1 ./...
	go test -C test -count=1 -timeout 30m ./e2e/...
endif

.PHONY: clean
clean: down ## Remove what was built, except for Kubernetes.
	find bin -maxdepth 1 -type f -delete
	rm -rf bin/test
