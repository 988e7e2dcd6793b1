#!/bin/sh
# Runs the real SDK clients against a binary, our request bodies against the vendors' SDK types, axe-core on the page in a
# browser, logins by a real OpenID Connect provider, and our MCP client, formatters and language servers against the real
# programs: sh tests/clients/run.sh PATH/TO/windlass
# Packages go into folders that git ignores. What needs a program that is missing is skipped, by name and with the reason.
set -u
binary=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
failed=0

# Runs a step and notes its failure, with its name at the end.
step() {
    name=$1
    shift
    began=$(date +%s)
    if "$@"; then
        echo "== $name: $(($(date +%s) - began)) s"
    else
        echo "== $name: FAILED after $(($(date +%s) - began)) s" >&2
        failed=1
    fi
}

# A program that waits for what never comes must not hold the whole run.
limit_s=900
limited() {
    if command -v timeout >/dev/null; then
        timeout -k 10 "$limit_s" "$@"
    else
        "$@"
    fi
}

# A registry may be out of reach for a moment.
patiently() {
    limited "$@" || { sleep 5; limited "$@"; } || { sleep 20; limited "$@"; }
}

install_node() {
    (cd "$1" && patiently npm ci --silent --no-audit --no-fund --prefer-offline)
}

install_python() {
    (cd "$1" \
        && { [ -x .venv/bin/python ] || python3 -m venv .venv; } \
        && patiently .venv/bin/python -m pip install --quiet --disable-pip-version-check -r requirements.txt)
}

rust_client() {
    # A lockfile of its own: it is a client as others write them, and not held to our lints.
    limited env -u RUSTC_WORKSPACE_WRAPPER "${CARGO:-cargo}" build --quiet --locked \
        --manifest-path "$here/rust/Cargo.toml" --target-dir "$rust_target"
}

in_folder() {
    folder=$1
    shift
    (cd "$here/$folder" && limited "$@")
}

has_node=no
if command -v node >/dev/null && command -v npm >/dev/null; then
    has_node=yes
    rust_target=$here/../../target/clients
    step "Rust SDK, built" rust_client
    step "TypeScript SDK, installed" install_node "$here/ts"
    step "TypeScript and Rust SDK" in_folder ts node client.mjs "$binary" "$rust_target/debug/windlass-client-test"
    step "HTTP and WebSocket" in_folder ts node transports.mjs "$binary" "$rust_target/debug/windlass-client-test"
    step "OpenCode's SDK and program, installed" install_node "$here/opencode"
    step "OpenCode's SDK" in_folder opencode node client.mjs "$binary"
    step "OpenCode's program" in_folder opencode node programs.mjs "$binary"
    step "the page, installed" install_node "$here/page"
    step "the page in a browser" in_folder page node page.mjs "$binary" axe
    step "the team's logins, installed" install_node "$here/team"
    step "the team's logins" in_folder team node login.mjs "$binary"
    step "MCP conformance suite, installed" install_node "$here/conformance"
    step "MCP conformance suite" limited sh "$here/conformance/conformance.sh" "$binary"
    # Real plugins, in Node and in Bun.
    step "plugins, installed" install_node "$here/plugins"
    for runtime in node $(sh "$here/bun/path.sh"); do
        for script in client acp turns; do
            step "plugins: $script in $(basename "$runtime")" in_folder plugins node $script.mjs "$binary" "$runtime"
        done
    done
else
    echo "skipped: the clients in TypeScript, Rust and of OpenCode, the page in a browser, the team's logins, and plugins: node and npm are not installed"
fi

has_python=no
if command -v python3 >/dev/null && python3 -c 'import ensurepip, venv' 2>/dev/null; then
    has_python=yes
    step "Python SDKs, installed" install_python "$here/python"
    for script in client mcp_client oauth_client generated; do
        step "Python: $script" in_folder python .venv/bin/python $script.py "$binary"
    done
    step "Python: bodies" in_folder python .venv/bin/python bodies.py
else
    echo "skipped: the clients in Python: python3 with venv is not installed"
fi

real_servers() {
    (cd "$here/../.." && WINDLASS_TEST_MCP_DIR="$here/mcp" limited "${CARGO:-cargo}" test --workspace --lib mcp::tests::real)
}

if [ $has_node = yes ] && [ $has_python = yes ]; then
    step "language servers and formatters, installed" install_node "$here/editing"
    step "Python's language servers and formatters, installed" install_python "$here/editing"
    step "language servers and formatters" limited node "$here/editing/editing.mjs" "$binary"
    step "MCP servers, installed" install_node "$here/mcp"
    step "Python's MCP servers, installed" install_python "$here/mcp"
    step "MCP servers" real_servers
else
    echo "skipped: real MCP servers, language servers and formatters: they need both node and python3"
fi

exit $failed
