#!/bin/sh
# Pipes a conversation with the built-in demo model through the binary, in a scratch repository, without a key or a
# network: sh tests/demo/demo.sh PATH/TO/windlass
set -eu
binary=$1
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/home" "$scratch/project"
cd "$scratch/project"
printf '# Demo project\n\nA scratch repository for the demo.\n' >README.md
git init -q -b main
git add .
git -c user.name=Demo -c user.email=demo@example.invalid commit -q -m 'Begin'

sed "s|@CWD@|$scratch/project|" "$here/../../fixtures/acp/demo.ndjson" >"$scratch/requests.ndjson"
env -i PATH="$PATH" HOME="$scratch/home" OPENCODE_PERMISSION='{"*":"allow"}' \
    "$binary" acp <"$scratch/requests.ndjson" >"$scratch/answers.ndjson"
if command -v python3 >/dev/null; then
    python3 "$here/render.py" "$scratch/requests.ndjson" "$scratch/answers.ndjson"
else
    cat "$scratch/answers.ndjson"
fi

echo
echo "That was the demo model. \`$binary demo\` shows it in this terminal, \`$binary doctor\` says what a real session needs,"
echo "and \`make install\` builds the release."
