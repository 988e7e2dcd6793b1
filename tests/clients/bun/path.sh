#!/bin/sh
# Prints the path of the Bun that tests run plugins in, after installing it below node_modules. Prints nothing but one line
# on standard error where there is none for this machine: sh tests/clients/bun/path.sh
if [ -n "${WINDLASS_TEST_BUN:-}" ]; then
    echo "$WINDLASS_TEST_BUN"
    exit
fi
cd "$(dirname "$0")" || exit
npm install --silent --ignore-scripts --prefer-offline --no-audit --no-fund --no-package-lock >/dev/null 2>&1
for bun in "$PWD"/node_modules/@oven/bun-*/bin/bun; do
    if "$bun" --version >/dev/null 2>&1; then
        echo "$bun"
        exit
    fi
done
echo "skipped: plugins in Bun: npm has no Bun that runs on this machine" >&2
