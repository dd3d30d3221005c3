# Everything that CI runs is `make test`; nothing else is needed to begin. `make help` lists the targets.

SHELL := /bin/bash
TOOLS := $(CURDIR)/target/tools
export PATH := $(TOOLS):$(HOME)/.cargo/bin:$(PATH)
export CARGO_TERM_COLOR ?= never

.PHONY: help demo demo-provision test check fmt lint unit doc deny audit sbom tools puppet parity bench bench-permits bench-gate bench-baseline bench-programs faults fuzz install clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

demo: tools ## a broker and five nodes do the main job, and are cleaned up
	@cargo build --quiet --release --bin rpc --bin rpcd
	@tools/demo target/release

demo-provision: tools puppet ## ten newcomers become nodes of a real Puppet Server, and one is retired
	@cargo build --quiet --release --bin rpc --bin rpcd
	@tools/demo-provision target/release

test: fmt lint unit doc deny ## everything that CI runs

fmt: ## the code is formatted
	cargo fmt --all --check

lint: ## no warnings in any target; names and module circles within their limits
	cargo clippy --workspace --all-targets --locked -- -D warnings
	tools/names --check

unit: tools puppet ## every test, on a real nats-server
	cargo build --locked --bin rpc --bin rpcd
	cargo nextest run --workspace --locked
	cargo test --workspace --doc --locked --quiet
	tools/check-docs target/debug

doc: ## documentation without broken links
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --quiet

deny: tools ## licences, sources and banned crates
	cargo deny --offline --locked check bans licenses sources

audit: tools ## known advisories, from a database that is on this machine already (exit code 3: there is none)
	@tools/audit

sbom: ## what rpc and rpcd are made of, as CycloneDX: target/sbom.cdx.json
	@tools/sbom target/sbom.cdx.json

tools: ## fetch nats-server, cargo-nextest and cargo-deny if they are missing
	@tools/fetch $(TOOLS)

puppet: ## install Puppet and Puppet Server beside us, if we are root and they are missing: tests ask them
	@tools/fetch-puppet
	@tools/fetch-puppetserver

parity: tools puppet ## N random catalogs (200), applied by Puppet and by rpcd
	cargo build --quiet --locked --bin rpcd
	PARITY_N=$(or $(N),200) cargo nextest run --workspace --locked -E 'test(parity::)'

LOAD := target/release/load

bench: tools bench-programs ## every promise about speed and size, beside its floor; writes target/bench.json (APPEND=1: docs/benchmarks.md)
	$(LOAD) run --json target/bench.json $(if $(APPEND),--append docs/benchmarks.md)

bench-permits: tools bench-programs ## simulated rollouts under run permits: whether the cap holds, and what it costs
	$(LOAD) permits

bench-gate: tools bench-programs ## a shorter run; fails if a ratio is worse than the committed one by more than its tolerance
	$(LOAD) run --short --json target/bench-gate.json --gate tests/load/baseline.json

bench-baseline: tools bench-programs ## the same run, whose ratios are to be committed
	$(LOAD) run --short --baseline tests/load/baseline.json

bench-programs:
	@cargo build --quiet --release --locked --bin rpc --bin rpcd --bin load

faults: tools ## every fault of tests/it/faults, N times in a row (10)
	cargo build --quiet --locked --bin rpc --bin rpcd
	tools/faults $(or $(N),10)

fuzz: ## each decoder for a minute (needs nightly and cargo-fuzz)
	tools/fuzz

install: ## rpc and rpcd, manual pages and completions, below DESTDIR and PREFIX
	cargo build --release --locked --bin rpc --bin rpcd
	install -D -m 0755 target/release/rpcd $(DESTDIR)$(or $(PREFIX),/usr/local)/sbin/rpcd
	install -D -m 0755 target/release/rpc $(DESTDIR)$(or $(PREFIX),/usr/local)/bin/rpc
	target/release/rpc man $(DESTDIR)$(or $(PREFIX),/usr/local)/share/man/man1
	install -d $(DESTDIR)$(or $(PREFIX),/usr/local)/share/{bash-completion/completions,zsh/site-functions,fish/vendor_completions.d}
	target/release/rpc completion bash > $(DESTDIR)$(or $(PREFIX),/usr/local)/share/bash-completion/completions/rpc
	target/release/rpc completion zsh > $(DESTDIR)$(or $(PREFIX),/usr/local)/share/zsh/site-functions/_rpc
	target/release/rpc completion fish > $(DESTDIR)$(or $(PREFIX),/usr/local)/share/fish/vendor_completions.d/rpc.fish
	install -D -m 0644 packaging/rpcd.service $(DESTDIR)/usr/lib/systemd/system/rpcd.service
	install -D -m 0644 packaging/sysusers.d/muster.conf $(DESTDIR)/usr/lib/sysusers.d/muster.conf
	install -D -m 0644 packaging/rpcd.service.d/observe.conf $(DESTDIR)$(or $(PREFIX),/usr/local)/share/muster/rpcd.service.d/observe.conf

clean: ## remove what was built
	cargo clean
