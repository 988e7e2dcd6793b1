CARGO ?= cargo
BIN := $(CURDIR)/target/debug/windlass
RELEASE := $(CURDIR)/target/release/windlass

# To note for each function what a later build may keep costs a quarter of the first one. Plain `cargo` does so, and has
# output of its own.
export CARGO_INCREMENTAL ?= 0

.PHONY: demo build test lint install bench clients clients-update catalog plugin-library order pictures dist-all

demo: build
	sh tests/demo/demo.sh "$(BIN)"

# The program as the tests build it. The bench is among the targets because then cargo chooses the features of the tests,
# so that nothing is built twice.
build:
	$(CARGO) build --workspace --bin windlass --bench acp

test: build
	sh tests/run.sh

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) clippy --package windlass --no-default-features -- -D warnings

# The release build takes 10 to 20 minutes on two cores: it is optimized as a whole.
install:
	@echo "Building the release takes 10 to 20 minutes on two cores."
	$(CARGO) install --locked --path .

bench:
	$(CARGO) build --release
	$(CARGO) bench --package windlass-bench --bench acp -- $(ARGS) "$(RELEASE)" acp
	$(CARGO) bench --package windlass-bench --bench wires -- run

# Programs of others: SDKs, MCP servers, language servers, plugins. Each is skipped by name where this machine lacks Node,
# npm or Python.
clients: build
	sh tests/clients/run.sh "$(BIN)"

# Pins the newest packages of tests/clients.
clients-update:
	sh tests/clients/update.sh

# Rewrites the catalog in the binary, and the entries that are shown of it, from FROM, a file in the form of models.dev's
# api.json or one provider a line.
catalog:
	python3 .ci/pack-catalog $(FROM) crates/provider/src/catalog/table.bin
	UPDATE_EXPECT=1 $(CARGO) test -p windlass-provider --lib -- prepared::tests::the_entries_in_the_binary commands_are_kept_from_every_variable

# Draws the pictures of the documents from runs of the program as it is; needs Node with npm, and Chromium.
pictures: build
	PICTURE_FILE="$(CURDIR)/docs/terminal.svg" PICTURE_FOLDER="$(CURDIR)/docs/pictures" $(CARGO) test --test e2e picture
	cd tests/clients/page && npm ci --ignore-scripts --no-audit --no-fund && node pictures.mjs "$(BIN)" "$(CURDIR)/docs/pictures"

# Bundles the packages that plugins import; their versions are in crates/services/src/plugin/library/package.json.
plugin-library:
	cd crates/services/src/plugin/library && npm ci --no-audit --no-fund && node build.mjs

# Lists the functions that a session runs, for the linker; needs valgrind. To be made anew when much has moved or a
# dependency is new, which changes the names.
order:
	$(CARGO) rustc --release --bin windlass -- -C strip=none
	.ci/order-functions "$(RELEASE)" .ci/function-order.txt

# Builds a release for an old glibc and packs it for npm, PyPI, Debian and the others, into target/dist. What a tag's workflow
# runs; RELEASES is the address below which the files will be, REPOSITORY that of the source code.
RELEASES ?= https://windlass.invalid/releases
REPOSITORY ?= https://windlass.invalid/windlass
dist-all:
	.ci/dist-all target/dist $(RELEASES) $(REPOSITORY) $(ARGS)
