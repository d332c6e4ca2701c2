# What to do with this repository. `make help` lists it all.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

# rustup adds cargo to the PATH of login shells only.
CARGO_HOME ?= $(HOME)/.cargo
export PATH := $(PATH):$(CARGO_HOME)/bin

# Arguments for `make demo`, for example ARGS='--help'.
ARGS ?=
# How long each fuzzer runs. A longer time than the default belongs to `make test-long`.
FUZZ_SECONDS ?= 20

STEP := scripts/step

# Parts of the command that are left out of a first build, for what they need or how long they take.
APPS := seawall-cli/search,seawall-cli/rocks,seawall-cli/columns,seawall-cli/node,seawall-cli/otel,seawall-bench-rpc/node
# All that is tested. Each step of `make test` builds with just these options, because cargo builds a
# library once for each set of features.
ALL := --workspace --locked --features $(APPS)

.PHONY: help
help: ## Show this list.
	@echo 'Usage: make TARGET'
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: demo
demo: ## Build and run `seawall demo`: an overloaded service, with and without control (ARGS='...').
	@$(STEP) 'Tools' scripts/check-tools build
	@$(STEP) 'Build' cargo build --locked --package seawall-lab
	@$(STEP) 'Demo' cargo run --locked --quiet --package seawall-lab -- $(ARGS)

.PHONY: build
build: ## Build the `seawall` command and what it needs, optimised.
	@$(STEP) 'Tools' scripts/check-tools build
	@$(STEP) 'Build' cargo build --release --locked

.PHONY: check
check: ## Format, clippy and unit tests of the main crates: quick, for between two commits.
	@$(STEP) 'Tools' scripts/check-tools check
	@$(STEP) 'Format' cargo fmt --all --check
	@$(STEP) 'Clippy' cargo clippy --all-targets --locked -- -D warnings
	@$(STEP) 'Unit tests' cargo test --lib --bins --locked --quiet

.PHONY: test
test: ## Run all checks, the same as CI.
	@$(STEP) 'Tools' scripts/check-tools test
	@$(STEP) 'Format' cargo fmt --all --check
	@$(STEP) 'Clippy' cargo clippy $(ALL) --all-targets -- -D warnings
	@$(STEP) 'Core without std' scripts/check-no-std
	@$(STEP) 'Tests' cargo test $(ALL)
	@$(STEP) 'Dashboard and alerts' scripts/check-prometheus $(ALL)
	@$(STEP) 'Stores behind services' cargo test $(ALL) --test stores -- --ignored --test-threads 1
	@$(STEP) 'Models of the locks' scripts/loom
	@$(STEP) 'Stock memcached clients' scripts/interop-kv $(ALL)
	@$(STEP) 'Stock HTTP and gRPC clients' scripts/interop-http $(ALL)
	@$(STEP) 'Java' scripts/java test $(ALL)
	@$(STEP) 'Files to deploy with' scripts/check-deploy
	@$(STEP) 'Live page in a browser' scripts/browser $(ALL)
	@$(STEP) 'Documentation' env RUSTDOCFLAGS='-D warnings' cargo doc $(ALL) --no-deps --lib --bins --example interop
	@echo
	@if [[ -s target/interop.missing ]]; then \
	    sed 's/^/skipped: interoperability of apps\/kv, for want of /' target/interop.missing; \
	fi
	@if [[ -s target/interop-http.missing ]]; then \
	    sed 's/^/skipped: interoperability of layer and proxy, for want of /' target/interop-http.missing; \
	fi
	@if [[ -s target/browser.missing ]]; then \
	    sed 's/^/skipped: live page in a browser, for want of /' target/browser.missing; \
	fi
	@echo 'make test: all checks passed'

.PHONY: java
java: ## Build the library for Java and install it in the local Maven repository.
	@$(STEP) 'Tools' scripts/check-tools java
	@$(STEP) 'Java' scripts/java install

.PHONY: test-long
test-long: FUZZ_SECONDS := 600
test-long: fuzz loom miri ## Run the long tests, loom, miri, and each fuzzer for 10 minutes.
	@$(STEP) 'Tools' scripts/check-tools test
	@$(STEP) 'Long tests' cargo test --release --workspace --locked --tests -- --ignored
	@$(STEP) 'API server of Kubernetes' scripts/kube-apiserver cargo test --release -p seawall-node --locked --test agent kubernetes::live -- --ignored --nocapture
	@$(STEP) 'Manifests' scripts/kube-apiserver scripts/check-deploy
	@echo
	@echo 'make test-long: all checks passed'

.PHONY: fuzz
fuzz: ## Run each fuzzer briefly (FUZZ_SECONDS=20).
	@$(STEP) 'Tools' scripts/check-tools fuzz
	@FUZZ_SECONDS=$(FUZZ_SECONDS) scripts/fuzz

.PHONY: loom
loom: ## Model-check the locks: all orders in which threads may meet.
	@$(STEP) 'Tools' scripts/check-tools build
	@$(STEP) 'Models of the locks' scripts/loom

.PHONY: miri
miri: ## Look for undefined behaviour in the locks.
	@$(STEP) 'Tools' scripts/check-tools miri
	@$(STEP) 'Locks under miri' scripts/miri

.PHONY: bench
bench: ## Run all benchmarks; criterion's reports are in target/criterion.
	@$(STEP) 'Tools' scripts/check-tools bench
	@$(STEP) 'Benchmarks' cargo bench --workspace --locked --bench '*'
	@$(STEP) 'RPC beside echo and tonic' cargo run --release --locked --quiet --package seawall-bench-rpc --bin seawall-bench-rpc
	@$(STEP) 'Locks beside others' cargo run --release --locked --quiet --package seawall-bench-sync
	@$(STEP) 'Search for a capacity' cargo run --release --locked --quiet --package seawall-bench-sync --bin seawall-bench-bandit

.PHONY: peers
peers: ## Compare with the limiters of others: Envoy, failsafe-go, tower, ... (ARGS='--quick').
	@$(STEP) 'Tools' scripts/check-tools build
	@scripts/peers $(ARGS)

.PHONY: fmt
fmt: ## Format all code.
	@$(STEP) 'Format' cargo fmt --all

.PHONY: clean
clean: ## Remove everything that was built.
	@$(STEP) 'Clean' cargo clean
	@if [[ -d fuzz ]]; then $(STEP) 'Clean fuzz' cargo clean --manifest-path fuzz/Cargo.toml; fi
