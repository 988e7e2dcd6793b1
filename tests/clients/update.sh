#!/bin/sh
# Pins the newest packages of the clients, and all that they depend on: sh tests/clients/update.sh
# Read what changed and run `make clients` before it is committed. OpenCode's own packages stay at the version that
# docs/compatibility.md compares with.
set -eu
cd "$(dirname "$0")"

for folder in conformance editing mcp page plugins team ts; do
    (
        cd "$folder"
        rm -rf node_modules package-lock.json
        for package in $(node -p 'Object.keys(require("./package.json").dependencies).join(" ")'); do
            npm install --silent --no-audit --no-fund --ignore-scripts --package-lock-only --save-exact "$package@latest"
        done
    )
done
for folder in *; do
    [ -f "$folder/package.json" ] || continue
    # Without addresses, so that any registry serves.
    (cd "$folder" && npm install --silent --no-audit --no-fund --ignore-scripts --package-lock-only --omit-lockfile-registry-resolved)
done

for folder in editing mcp python; do
    (
        cd "$folder"
        rm -rf .venv
        python3 -m venv .venv
        .venv/bin/python -m pip install --quiet --disable-pip-version-check --upgrade -r requirements.in
        {
            echo "# Written by tests/clients/update.sh from requirements.in."
            .venv/bin/python -m pip freeze --disable-pip-version-check
        } >requirements.txt
    )
done

(cd rust && "${CARGO:-cargo}" update --quiet)
