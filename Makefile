# run, test, check, fix, build: all there is to know. Each installs what it needs and the machine lacks.
#
# What is compiled goes to one folder per machine, outside the clone: LEVERET_CACHE, by default ~/.cache/leveret.

export LEVERET_CACHE ?= $(HOME)/.cache/leveret
export CARGO_TARGET_DIR ?= $(LEVERET_CACHE)/target
# Where rustup puts cargo; it may have been installed a moment ago.
export PATH := $(PATH):$(if $(CARGO_HOME),$(CARGO_HOME),$(HOME)/.cargo)/bin

# cargo with the RocksDB that scripts/rocksdb has built.
cargo := scripts/cargo

.PHONY: run test check fix build fuzz faults bench growth profile check-perf neighbours sbom

# The broker, on port 5672.
run:
	@scripts/setup
	@$(cargo) build --release --package leveret
	@exec $(CARGO_TARGET_DIR)/release/leveret

build:
	@scripts/setup
	$(cargo) build --release --package leveret

test:
	@scripts/setup test
	$(cargo) test --workspace --no-fail-fast
	conformance/run

# The long form of conformance/faults: a hundred rounds of kills, fifty power cuts, millions of messages. About an hour;
# FAULTS=FM4 runs only what has that in its name.
faults: build
	LEVERET_BIN=$(CARGO_TARGET_DIR)/release/leveret conformance/faults/run --long $(FAULTS)

# Leveret and RabbitMQ side by side, into docs/benchmarks.md. About an hour on a quiet machine; BENCH="a- c-1" runs only
# what begins like that.
bench:
	@scripts/setup test
	scripts/bench $(BENCH)

# What a good client notices of attacks, for the table in docs/security.md. Ten minutes on a quiet machine; NEIGHBOURS=churn runs
# one of them.
neighbours: build
	@scripts/setup test
	LEVERET_BIN=$(CARGO_TARGET_DIR)/release/leveret python3 conformance/hostile/neighbours.py $(NEIGHBOURS)

# The parts of the program, as CycloneDX, into leveret.cdx.json.
sbom:
	scripts/sbom leveret.cdx.json

# What a message costs as things grow, into docs/growth.md. Fifteen minutes on a quiet machine.
growth:
	@scripts/setup
	$(cargo) build --release --package leveret --package leveret-bench
	scripts/growth

# A flame graph of the broker: make profile WORKLOAD=c-1
profile:
	@scripts/setup
	scripts/profile $(WORKLOAD)

# Instructions of a message's way, counted by valgrind, against the record. Not timed.
check-perf:
	@scripts/setup
	scripts/check-perf

# Only reads.
check:
	@scripts/setup check
	cargo fmt --all --check
	$(cargo) clippy --workspace --all-targets --all-features -- -D warnings
	RUSTDOCFLAGS='-D warnings' $(cargo) doc --workspace --no-deps
	scripts/check-layers
	scripts/check-docs
	scripts/check-statements
	scripts/check-deny

# Writes: formats, and applies what clippy can repair.
fix:
	@scripts/setup check
	cargo fmt --all
	$(cargo) clippy --workspace --all-targets --all-features --fix --allow-dirty --allow-staged

# A minute for each fuzz target, or FUZZ_SECONDS.
fuzz:
	@scripts/setup
	scripts/fuzz
