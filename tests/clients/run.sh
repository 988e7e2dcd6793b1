#!/bin/sh
# Runs the real SDK clients against a binary: sh tests/clients/run.sh PATH/TO/windlass
# Packages go into folders that git ignores. A missing Node or Python is one clear line and a failure.
set -u
binary=$1
here=$(cd "$(dirname "$0")" && pwd)
failed=0

if command -v node >/dev/null && command -v npm >/dev/null; then
    (cd "$here/ts" && npm install --silent --no-audit --no-fund --no-package-lock && node client.mjs "$binary") || failed=1
else
    echo "TypeScript client: not run, because node and npm are not installed." >&2
    failed=1
fi

if command -v python3 >/dev/null && python3 -c 'import ensurepip, venv' 2>/dev/null; then
    (cd "$here/python" \
        && { [ -x .venv/bin/python ] || python3 -m venv .venv; } \
        && .venv/bin/python -m pip install --quiet --disable-pip-version-check -r requirements.txt \
        && .venv/bin/python client.py "$binary") || failed=1
else
    echo "Python client: not run, because python3 with venv is not installed." >&2
    failed=1
fi

exit $failed
