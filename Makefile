# `make test` runs everything that CI runs. `make help` lists the targets.

SHELL := /bin/bash
TOOLS := $(CURDIR)/target/tools
export PATH := $(TOOLS):$(HOME)/.cargo/bin:$(PATH)
export CARGO_TERM_COLOR ?= never
# Tests mostly wait for programs and elections: with one test for each processor, the processors are idle for 40 % of the time.
export NEXTEST_TEST_THREADS ?= $(shell echo $$(($$(nproc) * 3 / 2)))
BUILD := $(or $(CARGO_TARGET_DIR),target)
PROFILE ?= release

.PHONY: help demo demo-provision test check fmt lint unit slow doc docs deny audit sbom tools puppet ansible packaging parity bench bench-permits bench-gate bench-baseline bench-programs faults machines fuzz deb rpm image release install clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

demo: ## start a broker and five nodes, run example requests, and remove everything (PROFILE=dev builds faster)
	@tools/fetch $(TOOLS) demo
	cargo build --locked --profile $(PROFILE) --bin rpc --bin rpcd
	@tools/demo $(BUILD)/$(PROFILE:dev=debug)

demo-provision: tools puppet ## enrol ten new machines with a real Puppet Server, provision them, and retire one
	@cargo build --quiet --release --bin rpc --bin rpcd
	@tools/demo-provision target/release

test: fmt lint unit machines doc docs deny ## run everything that CI runs

fmt: ## check the format of the code
	cargo fmt --all --check

lint: ## run clippy on all targets, warnings are errors; check the limits for names and module cycles
	cargo clippy --workspace --all-targets --locked -- -D warnings
	tools/names --check

unit: tools puppet ansible packaging ## run all tests, with a real nats-server; run the commands in the documentation
	cargo build --locked --bin rpc --bin rpcd
	cargo nextest run --workspace --locked -E 'not test(/^machines::/)'
	cargo test --workspace --doc --locked --quiet
	tools/check-docs target/debug

slow: tools puppet ## run the tests that `make test` leaves out: two minutes with a real Puppet Server, a copy of 4 GB, five minutes of leader kills, a rolling restart with 3,000 nodes
	cargo build --locked --bin rpc --bin rpcd
	cargo nextest run --workspace --locked --run-ignored only -E 'test(agent_mode) | test(run_and_copy) | test(permit_store_faults) | test(rolling_restart) | test(/^schedules::leaders::/) | test(runs_of_a_schedule)'

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

tools: ## download nats-server, mdbook, promtool, cargo-nextest and cargo-deny if they are missing
	@tools/fetch $(TOOLS)

puppet: ## install Puppet and Puppet Server, which tests need, if they are missing and the user is root
	@tools/fetch-puppet
	@tools/fetch-puppetserver

ansible: ## install ansible-core, which tests need, below target/tools if it is missing
	@tools/fetch-ansible $(TOOLS)

packaging:
	@tools/fetch-packaging

parity: tools puppet ## apply N random catalogs (default 200) with Puppet and with rpcd, and compare the results
	cargo build --quiet --locked --bin rpcd
	PARITY_N=$(or $(N),200) cargo nextest run --workspace --locked -E 'test(parity::)'

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
	cargo build --quiet --locked --bin rpc --bin rpcd
	tools/faults $(or $(N),10)

machines: tools puppet packaging ## run the tests on booted Debian machines (needs root; prints what is missing otherwise)
	@tools/fetch-machines
	@if tools/machines check; then \
	  cargo build --locked --bin rpc --bin rpcd && tools/machines base --with puppet --with programs && \
	  cargo nextest run --workspace --locked -E 'test(/^machines::/)'; \
	else echo "machines: the tests on booted machines were NOT run"; fi

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

release: packaging ## build all packages and images without paths of this machine, manual pages, SBOM and SHA256SUMS into dist/
	@tools/release dist

clean: ## remove all build results
	cargo clean
