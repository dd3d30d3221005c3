# `make test` runs what CI runs, and `make test-all` the rest, too. `make help` lists the targets; tools/test has the phases of both.

SHELL := /bin/bash
TOOLS := $(CURDIR)/target/tools
export PATH := $(TOOLS):$(HOME)/.cargo/bin:$(PATH)
export CARGO_TERM_COLOR ?= never
BUILD := $(or $(CARGO_TARGET_DIR),target)
PROFILE ?= demo

.PHONY: help demo demo-provision test test-all slow fmt lint unit doc docs deny audit sbom tools puppet ansible packaging parity fidelity bench bench-permits bench-gate bench-baseline bench-programs faults machines fuzz deb rpm image release repository install clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

demo: ## start a broker and five nodes, run example requests, and remove everything (PROFILE=release: as in packages, builds longer)
	@tools/fetch $(TOOLS) demo
	cargo build --locked --profile $(PROFILE) --bin rpc --bin rpcd
	@tools/demo $(BUILD)/$(PROFILE:dev=debug)

demo-provision: tools puppet ## enrol ten new machines with a real Puppet Server, provision them, and retire one
	@cargo build --quiet --release --bin rpc --bin rpcd
	@tools/demo-provision target/release

test: ## run everything that CI runs: the short tests, format, lint, the first pages, licences
	tools/test

test-all: ## also the long tests: machines, clusters, faults, Puppet Server, all pages, the API documentation; writes target/test-all.json
	tools/test all

slow: ## build rpc and rpcd of an earlier commit, and run the tests that they work with this one, and those that take more than ten minutes each
	tools/test slow tests

fmt: ## check the format of the code
	cargo fmt --all --check

lint: ## compile everything with clippy, warnings are errors; check the limits for names and module cycles
	tools/test test build names

unit: ## run the short tests only, with all that they need
	tools/test test tests

doc: ## build the API documentation; warnings, such as broken links, are errors
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --quiet

docs: ## build the book from docs/SUMMARY.md in target/book/html; warnings and broken links are errors
	@tools/fetch $(TOOLS) docs
	tools/book mdbook $(BUILD)/book

deny: tools ## check licences, sources and banned crates
	cargo deny --offline --locked check bans licenses sources

audit: tools ## check the dependencies against a local advisory database (exit code 3: no database)
	@tools/audit

sbom: ## write the bill of materials of rpc and rpcd in CycloneDX format: target/sbom.cdx.json
	@tools/sbom target/sbom.cdx.json

tools: ## download nats-server, mdbook, promtool, prometheus, cargo-nextest and cargo-deny if they are missing
	@tools/fetch $(TOOLS)

puppet: ## install Puppet, Puppet Server and Puppetboard, and unpack NRPE, which tests need, if they are missing and the user is root
	@tools/fetch-puppet
	@tools/fetch-puppetserver
	@tools/fetch-nrpe $(TOOLS)
	@tools/fetch-modules $(TOOLS)
	@tools/fetch-puppetboard $(TOOLS)

ansible: ## install ansible-core, which tests need, below target/tools if it is missing
	@tools/fetch-ansible $(TOOLS)

packaging:
	@tools/fetch-packaging

parity: tools puppet ## apply N random catalogs (default 200) with Puppet and with rpcd, and compare the results
	cargo build --workspace --bins --tests --locked --quiet
	PARITY_N=$(or $(N),200) cargo nextest run --workspace --locked --profile all -E 'test(parity::)'

fidelity: tools puppet ## compare with the originals and print the counts: catalogs and records of files with Puppet, PQL with PuppetDB, nrpe.cfg with NRPE, filters, policies, inputs and summaries with Choria's own tests, query documents with MongoDB's manual (MUSTER_SEED, MUSTER_PQL_QUERIES; part of test-all)
	cargo build --workspace --bins --tests --locked --quiet
	cargo nextest run --workspace --locked --profile all --no-capture -E 'test(/long::pql::|parity::|checks::original::|choria::|mongodb::/)'

LOAD := target/release/load

bench: tools bench-programs ## measure every guarantee about speed and size next to its floor; write target/bench.json (APPEND=1: add to docs/benchmarks.md)
	$(LOAD) run --json target/bench.json $(if $(APPEND),--append docs/benchmarks.md)

bench-permits: tools bench-programs ## simulate rollouts with run permits: check that the limit holds, and measure the overhead
	$(LOAD) permits

bench-gate: tools bench-programs ## run a shorter benchmark; fail if a ratio is worse than the committed one by more than its tolerance
	$(LOAD) run --short --json target/bench-gate.json --gate tests/load/baseline.json

bench-baseline: tools bench-programs ## run the shorter benchmark, and write its ratios to the file to commit
	$(LOAD) run --short --baseline tests/load/baseline.json

bench-programs:
	@cargo build --quiet --release --locked --bin rpc --bin rpcd --bin load

faults: tools ## run the fault tests of tests/it/faults N times in a row (default 10)
	cargo build --workspace --bins --tests --locked --quiet
	tools/faults $(or $(N),10)

machines: ## run all tests on booted Debian machines (needs root)
	tools/test all build tools machines
	cargo nextest run --workspace --locked --profile all -E 'test(/(^|::)machines::/)'

fuzz: ## fuzz each decoder for one minute (needs nightly and cargo-fuzz)
	tools/fuzz

install: ## install rpc, rpcd, manual pages and completions below DESTDIR and PREFIX
	cargo build --release --locked --bin rpc --bin rpcd
	install -D -m 0755 target/release/rpcd $(DESTDIR)$(or $(PREFIX),/usr/local)/sbin/rpcd
	install -D -m 0755 target/release/rpc $(DESTDIR)$(or $(PREFIX),/usr/local)/bin/rpc
	target/release/rpc man $(DESTDIR)$(or $(PREFIX),/usr/local)/share/man/man1
	target/release/rpcd man $(DESTDIR)$(or $(PREFIX),/usr/local)/share/man/man8
	install -d $(DESTDIR)$(or $(PREFIX),/usr/local)/share/{bash-completion/completions,zsh/site-functions,fish/vendor_completions.d}
	target/release/rpc completion bash > $(DESTDIR)$(or $(PREFIX),/usr/local)/share/bash-completion/completions/rpc
	target/release/rpc completion zsh > $(DESTDIR)$(or $(PREFIX),/usr/local)/share/zsh/site-functions/_rpc
	target/release/rpc completion fish > $(DESTDIR)$(or $(PREFIX),/usr/local)/share/fish/vendor_completions.d/rpc.fish
	install -D -m 0644 packaging/rpcd.service $(DESTDIR)/usr/lib/systemd/system/rpcd.service
	install -D -m 0644 packaging/sysusers.d/muster.conf $(DESTDIR)/usr/lib/sysusers.d/muster.conf
	install -D -m 0644 packaging/rpcd.service.d/observe.conf $(DESTDIR)$(or $(PREFIX),/usr/local)/share/muster/rpcd.service.d/observe.conf

PACKAGE = cargo build --quiet --release --locked --bin rpc --bin rpcd && tools/package $(1) --binaries $(BUILD)/release --out dist

deb: packaging ## build Debian packages of rpc, rpcd, the broker's service and the Puppet module into dist/
	@$(call PACKAGE,deb)

rpm: packaging ## build rpm packages into dist/
	@$(call PACKAGE,rpm)

image: packaging ## build container images of rpc and of rpcd virtual into dist/, as OCI archives
	@$(call PACKAGE,image)

release: packaging ## build programs for glibc 2.17 and later without paths of this machine; write packages, a tarball with install.sh, images, manual pages, SBOM and SHA256SUMS into dist/
	@tools/release dist

repository: packaging ## write signed repositories for apt and dnf from the packages in dist/ into dist/repository (KEY: a key of gpg, or a file with a secret key)
	@tools/repository $(or $(KEY),$(error set KEY to a key of gpg, or to a file with a secret key))

clean: ## remove all build results
	cargo clean
