# Copyright The pullwarden Authors.
# SPDX-License-Identifier: Apache-2.0

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS   += --no-print-directory

GO        ?= go
FUZZTIME  ?= 10s # for each fuzz target
RUN       ?= .   # the integration tests to run
BENCH     ?=     # the rows to measure, all by default
TIME      ?= 10m  # for the histories of a campaign
KILLS     ?= 1000 # in pulls, of a campaign
SEED      ?= 0    # of a campaign's histories; 0: a random one
SCENARIO  ?= all  # of a simulated fleet
NODES     ?= 0    # that it has; 0: as many as the scenario says
DETECTOR  ?= -race # of data races, in unit tests and in the daemons of integration tests; their drivers have none, which costs as much
SETTING   ?=      # of CRI, for the nodes of tests; each: one after the other
FOLDERS   ?= $(shell $(GO) list ./integration/... | grep -vE '/(cluster|critest|deploy|fleet|install|kubelet|stargz)$$') # of the integration tests
# The minor of containerd to build with: go.mod is for the newest, and builds/ has a go.mod
# for each of the others.
NEWEST     := 2.4
CONTAINERD ?= $(NEWEST)
MINORS     := $(NEWEST) $(patsubst builds/containerd-%.mod,%,$(wildcard builds/*.mod))
SETTINGS  := discard downloads annotations sync local configs together
# The tests of promises that hold under every setting.
PROMISES  := ./integration/policies ./integration/failures ./integration/sources ./integration/access ./integration/origin
LINT_VERSION := v2.15.0

MODULE     := github.com/containerd/containerd/v2
LINT       := build/tools/golangci-lint-$(LINT_VERSION)

# What `containerd --version` and the kubelet show: containerd's own version,
# with ours as semver build metadata behind it, so that version checks see
# containerd's.
PULLWARDEN_VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
REVISION           ?= $(shell git rev-parse HEAD 2>/dev/null)
CONTAINERD_VERSION  = $(shell GOFLAGS='$(GOFLAGS)' $(GO) list -m -f '{{.Version}}' $(MODULE))
LDFLAGS = -X $(MODULE)/version.Version=$(CONTAINERD_VERSION)+pullwarden.$(PULLWARDEN_VERSION) \
          -X $(MODULE)/version.Revision=$(REVISION) \
          -X github.com/pullwarden/pullwarden/cmd/pullwarden/internal/cli.Version=$(PULLWARDEN_VERSION)
BUILD   = $(GO) build -trimpath -ldflags '$(LDFLAGS)'

# Where the tests have their daemons, apart for each minor: tests with two of them may run at
# the same time.
RACE  := build/race
STOCK := build/stock

ifneq ($(strip $(CONTAINERD)),$(NEWEST))
RACE    := $(RACE)-$(strip $(CONTAINERD))
STOCK   := $(STOCK)-$(strip $(CONTAINERD))
MODFILE := builds/containerd-$(strip $(CONTAINERD)).mod
ifeq ($(wildcard $(MODFILE)),)
$(error CONTAINERD=$(CONTAINERD): allowed are $(MINORS))
endif
export GOFLAGS := $(strip $(GOFLAGS) -modfile=$(CURDIR)/$(MODFILE))
endif

.DEFAULT_GOAL := build

.PHONY: help
help: ## show this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 26

.PHONY: build
build: ## build bin/containerd and bin/pullwarden; CONTAINERD=2.3 is the long-term release of containerd, here and below
	$(BUILD) -o bin/ ./cmd/containerd ./cmd/pullwarden

.PHONY: man
man: ## write the man pages of pullwarden to build/man
	@mkdir -p build/man
	$(GO) run ./cmd/pullwarden/internal/manpages build/man

.PHONY: demo
demo: on-linux-as-root build ## tell the story: a node, registries on loopback, and what pullwarden decides (as root)
	$(GO) build -o build/demo ./integration/demo
	@exec build/demo

.PHONY: on-linux-as-root
on-linux-as-root:
	@[[ "$$(uname)" == Linux ]] || { echo "this runs a containerd, which takes Linux; here is $$(uname)" >&2; exit 1; }
	@[[ "$$(id -u)" == 0 ]] || { echo "this runs a containerd, which takes root: try sudo make $(MAKECMDGOALS)" >&2; exit 1; }

.PHONY: test
test: test-unit test-fleet test-integration ## run all tests, with the race detector but for fleets (as root)
	@$(MAKE) test-critest RUN='TestImageSuite/(none|together)'

# More tests side by side than there are cores: most of them wait.
.PHONY: test-unit
test-unit: cc ## run the unit tests
	$(GO) test $(strip $(DETECTOR)) -timeout 10m -parallel 8 $$($(GO) list ./... | grep -v /integration)

.PHONY: test-fleet
test-fleet: ## hold what small simulated fleets do to a registry
	$(GO) test -timeout 10m ./integration/fleet

.PHONY: test-integration
test-integration: on-linux-as-root cc runc ## build the daemon with the race detector and test it through its sockets; RUN=<pattern> picks tests, SETTING=<name> configures CRI
	$(BUILD) $(strip $(DETECTOR)) -o $(RACE)/ ./cmd/containerd
	$(BUILD) -o $(RACE)/ ./cmd/pullwarden
	$(GO) build -o $(RACE)/ $(MODULE)/cmd/containerd-shim-runc-v2
	PULLWARDEN_SETTING=$(strip $(SETTING)) PULLWARDEN_CONTAINERD=$(CURDIR)/$(RACE)/containerd \
		$(GO) test -count 1 -timeout 30m -p 2 -parallel 4 -run '$(strip $(RUN))' $(strip $(FOLDERS))

.PHONY: test-critest
test-critest: on-linux-as-root cc runc ## run critest's image specs against stock containerd and the daemon, under each setting of CRI; RUN=TestImageSuite/<setting> picks one
	$(BUILD) $(strip $(DETECTOR)) -o $(RACE)/ ./cmd/containerd
	$(GO) build -o $(RACE)/ $(MODULE)/cmd/containerd-shim-runc-v2
	$(GO) build -trimpath -o $(STOCK)/ $(MODULE)/cmd/containerd $(MODULE)/cmd/containerd-shim-runc-v2
	cd integration/critest/tool && GOFLAGS= $(GO) test -c -o $(CURDIR)/build/critest sigs.k8s.io/cri-tools/cmd/critest
	PULLWARDEN_CRITEST=$(CURDIR)/build/critest PULLWARDEN_STOCK=$(CURDIR)/$(STOCK)/containerd PULLWARDEN_CONTAINERD=$(CURDIR)/$(RACE)/containerd \
		$(GO) test -count 1 -timeout 30m -v -run '$(strip $(RUN))' ./integration/critest

.PHONY: test-kubelet
test-kubelet: on-linux-as-root cc runc ## have a stock kubelet run pods on the daemon; RUN=<pattern> picks tests
	$(BUILD) -race -o $(RACE)/ ./cmd/containerd
	$(GO) build -o $(RACE)/ $(MODULE)/cmd/containerd-shim-runc-v2
	$(GO) build -trimpath -o $(STOCK)/ $(MODULE)/cmd/containerd $(MODULE)/cmd/containerd-shim-runc-v2
	cd integration/kubelet/tool && export GOFLAGS= && version=$$($(GO) list -m -f '{{.Version}}' k8s.io/kubernetes) \
		&& $(GO) build -trimpath -ldflags "-X k8s.io/component-base/version.gitVersion=$$version" -o $(CURDIR)/build/kubernetes/ k8s.io/kubernetes/cmd/kubelet k8s.io/kubernetes/cmd/kube-apiserver \
		&& $(GO) build -trimpath -o $(CURDIR)/build/kubernetes/etcd go.etcd.io/etcd/server/v3
	PULLWARDEN_KUBERNETES=$(CURDIR)/build/kubernetes PULLWARDEN_STOCK=$(CURDIR)/$(STOCK)/containerd PULLWARDEN_CONTAINERD=$(CURDIR)/$(RACE)/containerd \
		$(GO) test -race -count 1 -timeout 30m -parallel 4 -run '$(strip $(RUN))' ./integration/kubelet

# Prometheus without its service discoveries, which are most of its code.
.PHONY: test-deploy
test-deploy: on-linux-as-root cc runc ## have a real Prometheus scrape the daemon while things fail: each alert fires and ends, each query of the dashboard has an answer
	$(BUILD) -race -o $(RACE)/ ./cmd/containerd ./cmd/pullwarden
	$(GO) build -o $(RACE)/ $(MODULE)/cmd/containerd-shim-runc-v2
	cd integration/deploy/tool && GOFLAGS= $(GO) build -tags remove_all_sd -o $(CURDIR)/build/tools/ github.com/prometheus/prometheus/cmd/prometheus github.com/prometheus/prometheus/cmd/promtool
	PULLWARDEN_PROMETHEUS=$(CURDIR)/build/tools/prometheus PULLWARDEN_PROMTOOL=$(CURDIR)/build/tools/promtool PULLWARDEN_CONTAINERD=$(CURDIR)/$(RACE)/containerd \
		$(GO) test -race -count 1 -timeout 15m -run '$(strip $(RUN))' ./integration/deploy

.PHONY: test-stargz
test-stargz: on-linux-as-root cc ## pull eStargz images by a real stargz snapshotter; RUN=<pattern> picks tests
	$(BUILD) -race -o $(RACE)/ ./cmd/containerd
	mkdir -p build/stargz
	cd integration/stargz/tool && GOFLAGS= $(GO) build -trimpath -o $(CURDIR)/build/stargz/ ./...
	PULLWARDEN_STARGZ=$(CURDIR)/build/stargz PULLWARDEN_CONTAINERD=$(CURDIR)/$(RACE)/containerd \
		$(GO) test -race -count 1 -timeout 10m -run '$(strip $(RUN))' ./integration/stargz

# Neither a kubelet nor root is needed: nodes are objects of the API.
.PHONY: test-cluster
test-cluster: cc ## lint and render the Helm chart and the Dockerfiles, and try chart, rollout and admission policies on a stock kube-apiserver; RUN=<pattern> picks tests
	CGO_ENABLED=0 $(BUILD) -o build/cluster/ ./cmd/pullwarden ./cmd/pullwarden-rollout
	cd integration/cluster/tool && GOFLAGS= $(GO) build -trimpath -o $(CURDIR)/build/tools/ helm.sh/helm/v4/cmd/helm ./dockerlint
	cd integration/kubelet/tool && export GOFLAGS= && version=$$($(GO) list -m -f '{{.Version}}' k8s.io/kubernetes) \
		&& $(GO) build -trimpath -ldflags "-X k8s.io/component-base/version.gitVersion=$$version" -o $(CURDIR)/build/kubernetes/ k8s.io/kubernetes/cmd/kube-apiserver \
		&& $(GO) build -trimpath -o $(CURDIR)/build/kubernetes/etcd go.etcd.io/etcd/server/v3
	PULLWARDEN_KUBERNETES=$(CURDIR)/build/kubernetes PULLWARDEN_TOOLS=$(CURDIR)/build/tools PULLWARDEN_BIN=$(CURDIR)/build/cluster \
		$(GO) test -race -count 1 -timeout 20m -run '$(strip $(RUN))' ./integration/cluster

# The binaries are static: the images have no C library, or another one.
.PHONY: image-root
image-root: cc ## lay out what the images of deploy/image and deploy/kind are made of, in build/image
	$(GO) build -trimpath -tags netgo,osusergo,static_build -ldflags '$(LDFLAGS) -extldflags "-static"' -o build/image/ ./cmd/containerd
	CGO_ENABLED=0 $(BUILD) -o build/image/ ./cmd/pullwarden ./cmd/pullwarden-rollout
	rm -rf build/image/kind && cp -r deploy/kind build/image/kind

RELEASE_DIR ?= build/release
CROSS       := $(if $(filter aarch64,$(shell uname -m)),gcc-x86-64-linux-gnu libc6-dev-amd64-cross,gcc-aarch64-linux-gnu libc6-dev-arm64-cross)

.PHONY: release
release: package-tools ## make tarballs, deb, rpm, system extensions, SBOMs and checksums in build/release; ARCHES=amd64 makes those of one architecture
	MODULE=$(MODULE) NEWEST=$(NEWEST) PULLWARDEN_VERSION=$(PULLWARDEN_VERSION) REVISION=$(REVISION) ARCHES='$(ARCHES)' TOOLS=$(CURDIR)/build/tools \
		deploy/packages/release.sh $(RELEASE_DIR) $(MINORS)

.PHONY: release-check
release-check: package-tools ## make the release of HEAD twice, in clones of other names: the bytes are the same
	TOOLS=$(CURDIR)/build/tools ARCHES='$(ARCHES)' deploy/packages/check.sh

.PHONY: test-install
test-install: on-linux-as-root test-install-needs ## install, upgrade, break, roll back and remove on a Debian with a real systemd, dpkg and rpm; RUN=<pattern> picks tests
	$(MAKE) release ARCHES=amd64 MINORS=$(NEWEST) RELEASE_DIR=build/install/old PULLWARDEN_VERSION=v0.0.1
	$(MAKE) release ARCHES=amd64 MINORS=$(NEWEST) RELEASE_DIR=build/install/new PULLWARDEN_VERSION=v0.0.2
	$(GO) build -trimpath -ldflags '-X $(MODULE)/version.Version=$(CONTAINERD_VERSION)' -o build/install/stock/ $(MODULE)/cmd/containerd $(MODULE)/cmd/containerd-shim-runc-v2 $(MODULE)/cmd/ctr
	PULLWARDEN_INSTALL=$(CURDIR)/build/install $(GO) test -count 1 -timeout 30m -v -run '$(strip $(RUN))' ./integration/install

# The tools are built by themselves, at the versions of their own go.mod.
.PHONY: package-tools
package-tools:
	cd deploy/packages/tool && GOFLAGS= $(GO) build -trimpath -o $(CURDIR)/build/tools/ github.com/goreleaser/nfpm/v2/cmd/nfpm github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod
	@{ command -v x86_64-linux-gnu-gcc && command -v aarch64-linux-gnu-gcc && command -v mksquashfs; } >/dev/null 2>&1 \
		|| { apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev $(CROSS) binutils squashfs-tools; }

.PHONY: test-install-needs
test-install-needs: runc
	@{ command -v systemd-nspawn && command -v debootstrap && command -v rpm; } >/dev/null 2>&1 \
		|| { apt-get update && apt-get install -y --no-install-recommends systemd-container debootstrap rpm; }
	@[[ -e build/install/debian.done ]] || { rm -rf build/install/debian; mkdir -p build/install; \
		debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus,containerd bookworm build/install/debian && touch build/install/debian.done; }

.PHONY: campaign
campaign: on-linux-as-root build ## hold random histories against the contract for TIME (10m), then in KILLS (1000) kills (as root); SEED begins the same ones again, SETTING=<name>|each is as for test-integration, with its tests
ifeq ($(strip $(SETTING)),each)
	@for setting in $(SETTINGS); do $(MAKE) campaign SETTING=$$setting; done
else
	PULLWARDEN_SETTING=$(strip $(SETTING)) PULLWARDEN_CONTAINERD=$(CURDIR)/bin/containerd $(GO) test -count 1 -timeout 0 -v -run '^TestHistories$$' ./integration/histories \
		-histories.time $(strip $(TIME)) -histories.kills $(strip $(KILLS)) -rapid.seed $(strip $(SEED))
ifneq ($(strip $(SETTING)),)
	$(MAKE) test-integration FOLDERS='$(PROMISES)'
endif
endif

.PHONY: fleet
fleet: ## simulate what a fleet does to a registry: a table, and plots in build/fleet; SCENARIO=<name>|all, NODES=<number>
	@mkdir -p build/fleet && rm -f build/fleet/*.json build/fleet/*.svg
	GOGC=300 $(GO) test -count 1 -timeout 6h -run '^TestFleet$$' ./integration/fleet -fleet.scenario $(strip $(SCENARIO)) -fleet.nodes $(strip $(NODES)) -fleet.out $(CURDIR)/build/fleet
	cd integration/fleet/tool && GOFLAGS= $(GO) run . $(CURDIR)/build/fleet

.PHONY: bench
bench: on-linux-as-root build ## compare the daemon with stock containerd (as root); BENCH=<row>,... picks rows
	$(GO) build -trimpath -ldflags '-X $(MODULE)/version.Version=$(CONTAINERD_VERSION)' -o build/containerd-stock $(MODULE)/cmd/containerd
	$(GO) build -o build/ ./integration/bench
	@exec build/bench -stock build/containerd-stock -ours bin/containerd -rows '$(strip $(BENCH))'

# The race detector needs a C compiler.
.PHONY: cc
cc:
	@command -v "$$($(GO) env CC)" >/dev/null || { apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev; }

# Some tests run containers: by runc, of a static busybox.
.PHONY: runc
runc:
	@{ command -v runc && test -x /bin/busybox && ! ldd /bin/busybox; } >/dev/null 2>&1 \
		|| { apt-get update && apt-get install -y --no-install-recommends runc busybox-static; }

.PHONY: lint
lint: $(LINT) ## run golangci-lint, at its pinned version
	$(LINT) run ./...

$(LINT):
	GOBIN=$(CURDIR)/build/tools $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)
	mv build/tools/golangci-lint $@

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME (10s)
	@grep -rHo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sed 's/:func / /' | sort | while read -r file target; do \
		echo "$$target in $$(dirname "$$file")"; \
		$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(strip $(FUZZTIME)) "$$(dirname "$$file")" </dev/null; \
	done

.PHONY: config
config: ## write config.toml.example from the defaults
	@mkdir -p build
	$(GO) run ./plugin/internal/configexample >build/config.toml.example
	mv build/config.toml.example config.toml.example

.PHONY: bump
bump: ## take the newest patch release of each minor of containerd, and run everything with it
	@for minor in $(MINORS); do \
		modfile=builds/containerd-$$minor.mod; [[ "$$minor" != $(NEWEST) ]] || modfile=go.mod; \
		$(GO) get -modfile=$$modfile $(MODULE)@v$$minor; \
		$(GO) mod tidy -modfile=$$modfile; \
		version=$$($(GO) list -modfile=$$modfile -m -f '{{.Version}}' $(MODULE)); \
		sed -i "s/^| $$minor | [^ ]* |/| $$minor | $${version#v} |/" docs/versions.md; \
	done
	@$(MAKE) lint
	@for minor in $(MINORS); do $(MAKE) test test-critest test-stargz test-kubelet CONTAINERD=$$minor; done

.PHONY: fmt
fmt: $(LINT) ## format the code
	$(LINT) fmt

.PHONY: clean
clean: ## remove everything that was built
	rm -rf bin build
