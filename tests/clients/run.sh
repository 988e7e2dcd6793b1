#!/bin/sh
# Runs the real SDK clients against a binary, our request bodies against the vendors' SDK types, and our MCP client,
# formatters and language servers against the real programs:
# sh tests/clients/run.sh PATH/TO/windlass
# Packages go into folders that git ignores. A missing Node or Python is one clear line and a failure.
set -u
binary=$1
here=$(cd "$(dirname "$0")" && pwd)
failed=0

install_node() {
    (cd "$1" && npm install --silent --no-audit --no-fund --no-package-lock)
}

install_python() {
    (cd "$1" \
        && { [ -x .venv/bin/python ] || python3 -m venv .venv; } \
        && .venv/bin/python -m pip install --quiet --disable-pip-version-check -r requirements.txt)
}

has_node=no
if command -v node >/dev/null && command -v npm >/dev/null; then
    has_node=yes
    rust_target=$here/../../target/clients
    "${CARGO:-cargo}" build --quiet --manifest-path "$here/rust/Cargo.toml" --target-dir "$rust_target" || failed=1
    install_node "$here/ts" && (cd "$here/ts" && node client.mjs "$binary" \
        && node transports.mjs "$binary" "$rust_target/debug/windlass-client-test") || failed=1
    install_node "$here/opencode" && (cd "$here/opencode" && node client.mjs "$binary" && node programs.mjs "$binary") \
        || failed=1
    # Real plugins, in Node and in Bun.
    install_node "$here/plugins" || failed=1
    for runtime in node $(sh "$here/bun/path.sh"); do
        for script in client acp turns; do
            (cd "$here/plugins" && node $script.mjs "$binary" "$runtime") || failed=1
        done
    done
else
    echo "TypeScript client: not run, because node and npm are not installed." >&2
    failed=1
fi

has_python=no
if command -v python3 >/dev/null && python3 -c 'import ensurepip, venv' 2>/dev/null; then
    has_python=yes
    install_python "$here/python" && (cd "$here/python" && .venv/bin/python client.py "$binary") || failed=1
    (cd "$here/python" && .venv/bin/python mcp_client.py "$binary" && .venv/bin/python oauth_client.py "$binary") \
        || failed=1
    (cd "$here/python" && .venv/bin/python bodies.py) || failed=1
else
    echo "Python client: not run, because python3 with venv is not installed." >&2
    failed=1
fi

if [ $has_node = yes ] && [ $has_python = yes ]; then
    install_node "$here/editing" && install_python "$here/editing" && node "$here/editing/editing.mjs" "$binary" || failed=1
    install_node "$here/mcp" && install_python "$here/mcp" \
        && (cd "$here/../.." && WINDLASS_TEST_MCP_DIR="$here/mcp" "${CARGO:-cargo}" test --lib mcp::tests::real) \
        || failed=1
else
    echo "Real MCP servers, language servers and formatters: not run, because they need both node and python3." >&2
    failed=1
fi

exit $failed
