CARGO ?= cargo
BIN := $(CURDIR)/target/debug/windlass
RELEASE := $(CURDIR)/target/release/windlass

.PHONY: demo test lint bench clients catalog plugin-library order dist

demo:
	$(CARGO) build --release
	sh tests/demo/demo.sh $(RELEASE)

# Plugins are tried in Bun too.
test:
	WINDLASS_TEST_BUN=$$(sh tests/clients/bun/path.sh) $(CARGO) test --workspace
	$(MAKE) clients

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

bench:
	$(CARGO) build --release
	$(CARGO) bench --package windlass-bench --bench acp -- $(ARGS) $(RELEASE) acp
	$(CARGO) bench --package windlass-bench --bench wires -- run

clients:
	$(CARGO) build
	sh tests/clients/run.sh $(BIN)

# Rewrites the catalog in the binary from FROM, a file in the form of models.dev's api.json or one provider a line.
catalog:
	python3 .ci/pack-catalog $(FROM) src/provider/catalog/table.bin

# Bundles the packages that plugins import; their versions are in src/plugin/library/package.json.
plugin-library:
	cd src/plugin/library && npm ci --no-audit --no-fund && node build.mjs

# Lists the functions that a session runs, for the linker; needs valgrind. To be made anew when much has moved or a
# dependency is new, which changes the names.
order:
	$(CARGO) rustc --release --bin windlass -- -C strip=none
	.ci/order-functions $(RELEASE) .ci/function-order.txt

# Packs the release for this machine, with the entry of the registry of ACP agents, into target/dist.
dist:
	$(CARGO) build --release
	.ci/dist $(RELEASE) target/dist $(RELEASES) $(REPOSITORY)
