#!/bin/sh
# Runs the Rust tests, by cargo-nextest where it is installed and by `cargo test` elsewhere: sh tests/run.sh [ci]
# With `ci`, tests that fail run again by themselves, twice at most. One that then passes is listed as FLAKY, and more
# than three of those fail the run. Tests that this machine cannot run are listed at the end, by name and with the reason.
set -u
cd "$(dirname "$0")/.." || exit
cargo=${CARGO:-cargo}
mode=${1:-}
max_flaky=3

skipped=$PWD/target/tmp/skipped
mkdir -p "$skipped" && rm -f "$skipped"/*
output=$(mktemp)
trap 'rm -f "$output"' EXIT
export WINDLASS_TEST_SKIPPED="$skipped"
# Plugins are tried in Bun too.
WINDLASS_TEST_BUN=$(sh tests/clients/bun/path.sh)
export WINDLASS_TEST_BUN
# The servers of tests are short: a shim in front of Python takes longer than they do.
python=$(python3 -c 'import sys; print(sys.executable)' 2>/dev/null) && PATH=$(dirname "$python"):$PATH
export PATH

tell_skipped() {
    cat "$skipped"/* 2>/dev/null | sort -u >"$output"
    if [ -s "$output" ]; then
        cat "$output"
        echo "$(wc -l <"$output") tests were skipped on this machine."
    fi
}

# Most of the time a test waits, for a process or a deadline of the program.
n_threads=$(($(getconf _NPROCESSORS_ONLN) * 2))

# Runs with the output kept, and ends with the status of the tests.
nextest() {
    { "$cargo" nextest run --workspace "$@" 2>&1; echo $? >"$output.status"; } | tee "$output"
    status=$(cat "$output.status")
    rm -f "$output.status"
    return "$status"
}

# Prints a filter for the tests that failed in the last run, from the lines that name them.
failed() {
    sed 's/\x1b\[[0-9;]*m//g' "$output" \
        | sed -nE 's/^ +(FAIL|TIMEOUT|SIG[A-Z]+|ABORT|LEAK-FAIL) +\[[^]]*\] +(\([^)]*\) +)?([^ ]+) +([^ ]+)$/(binary_id(=\3) \& test(=\4))/p' \
        | sort -u | sed 's/$/ |/' | tr '\n' ' ' | sed 's/ | *$//'
}

if ! "$cargo" nextest --version >/dev/null 2>&1; then
    "$cargo" test --workspace
    status=$?
    tell_skipped
    exit $status
fi

if [ "$mode" != ci ]; then
    nextest --test-threads "$n_threads"
    status=$?
    tell_skipped
    exit $status
fi

nextest --profile ci --test-threads "$n_threads"
status=$?
flaky=
for _ in 1 2; do
    [ $status = 0 ] && break
    again=$(failed)
    # Nothing that failed is named: it could not be built, or run.
    [ -n "$again" ] || exit $status
    n_again=$(echo "$again" | tr '|' '\n' | wc -l)
    if [ "$n_again" -gt 20 ]; then
        echo "$n_again tests failed, which is no accident; none runs again."
        exit $status
    fi
    echo "Running again by themselves: $n_again tests"
    nextest --profile ci --test-threads 1 -E "$again"
    status=$?
    still=$(failed)
    for name in $(echo "$again" | grep -oE 'test\(=[^)]*\)' | sed -E 's/test\(=(.*)\)/\1/'); do
        case $still in *"test(=$name)"*) ;; *) flaky="$flaky $name" ;; esac
    done
done
tell_skipped
for name in $flaky; do echo "FLAKY $name: it failed, and passed by itself"; done
if [ "$(echo $flaky | wc -w)" -gt $max_flaky ]; then
    echo "More than $max_flaky tests are flaky, which fails the run."
    exit 1
fi
exit $status
