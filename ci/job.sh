#!/bin/sh
# A job of a CI service: has windlass review a change, mend something, or answer a prompt. See docs/ci.md.
#
#   WINDLASS_JOB_KIND      review (default), fix or run
#   WINDLASS_JOB_PROMPT    the task; a review has one of its own
#   WINDLASS_JOB_BASE      what a review compares with: a branch or commit
#   WINDLASS_JOB_OPTIONS   more options of `windlass run`, separated by blanks
#   WINDLASS_JOB_OUT       directory for answer.md and result.json (default: windlass-job in the directory for temporary files)
#   WINDLASS_JOB_ARCHIVE, WINDLASS_JOB_SHA256
#                          address and checksum of a release, where windlass is not on the PATH
#
# Ends as `windlass run` does: 0 done, 1 failed, 2 wrong call, 3 something was refused, 124 out of time.
set -eu

fail() {
    echo "windlass job: $1" >&2
    exit 2
}

kind=${WINDLASS_JOB_KIND:-review}
out=${WINDLASS_JOB_OUT:-${RUNNER_TEMP:-${TMPDIR:-/tmp}}/windlass-job}
mkdir -p "$out"
# Nothing of an earlier job counts as this one's.
rm -f "$out/answer.md" "$out/result.json"

if ! command -v windlass >/dev/null; then
    [ -n "${WINDLASS_JOB_ARCHIVE:-}" ] || fail "there is no windlass on the PATH; name a release by WINDLASS_JOB_ARCHIVE"
    [ -n "${WINDLASS_JOB_SHA256:-}" ] || fail "WINDLASS_JOB_SHA256 has to name the checksum of the release"
    curl -fsSL --proto '=https,file' -o "$out/release.tar.gz" "$WINDLASS_JOB_ARCHIVE"
    echo "$WINDLASS_JOB_SHA256  $out/release.tar.gz" | sha256sum -c - >/dev/null ||
        fail "the release does not have the checksum that WINDLASS_JOB_SHA256 names"
    mkdir -p "$out/bin"
    tar -xzf "$out/release.tar.gz" -C "$out/bin" windlass
    PATH=$out/bin:$PATH
fi

# Bytes of a change that are given to the model at once.
most=400000

# Hands answer.md on, with the reason and the cost.
publish() {
    if [ -n "${GITHUB_OUTPUT:-}" ]; then
        # No text can end the value: the mark is new each time.
        mark=end-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
        {
            echo "reason=$1"
            echo "cost=$2"
            echo "directory=$out"
            echo "answer<<$mark"
            cat "$out/answer.md"
            echo "$mark"
        } >>"$GITHUB_OUTPUT"
    fi
    [ -z "${GITHUB_STEP_SUMMARY:-}" ] || cat "$out/answer.md" >>"$GITHUB_STEP_SUMMARY"
    cat "$out/answer.md"
}

reads='"read":{"*":"allow","*.env":"deny","*.env.*":"deny"},"glob":"allow","grep":"allow","list":"allow"'
case $kind in
review)
    base=${WINDLASS_JOB_BASE:-}
    [ -n "$base" ] || fail "a review needs WINDLASS_JOB_BASE, the branch or commit to compare with"
    git rev-parse -q --verify "$base^{commit}" >/dev/null || fail "there is no commit $base here; fetch it first"
    prompt=${WINDLASS_JOB_PROMPT:-Review this change. Look for defects, missing tests and unclear names; read the files around \
it where you need them. Begin with the most serious finding, name file and line of each, and say so if you find none.}
    # Only this is allowed: words in a change cannot make a review write, run or send anything.
    rules="{\"*\":\"deny\",$reads}"
    set -- --no-ask
    git diff --no-ext-diff --no-textconv "$base...HEAD" >"$out/diff"
    size=$(wc -c <"$out/diff" | tr -d ' ')
    if [ "$size" -eq 0 ]; then
        told="Nothing was changed: there is nothing to review."
        echo "$told" >"$out/answer.md"
        printf '{"reason":"end_turn","answer":"%s","cost":0}\n' "$told" >"$out/result.json"
        publish end_turn 0
        exit 0
    fi
    # A prompt is UTF-8, and files may be something else. Not everything may fit into a model.
    head -c "$most" "$out/diff" >"$out/part"
    iconv -c -f UTF-8 -t UTF-8 "$out/part" >"$out/input" 2>/dev/null || [ -s "$out/input" ] || cp "$out/part" "$out/input"
    [ "$size" -le "$most" ] || printf '\n[The change has %s bytes; these are the first %s. Read the other files of it.]\n' \
        "$size" "$most" >>"$out/input"
    rm -f "$out/diff" "$out/part"
    ;;
fix)
    prompt=${WINDLASS_JOB_PROMPT:-}
    rules="{$reads,\"edit\":\"allow\",\"webfetch\":\"deny\",\"websearch\":\"deny\"}"
    # Commands run in the sandbox where the machine holds it.
    set -- --auto
    : >"$out/input"
    ;;
run)
    prompt=${WINDLASS_JOB_PROMPT:-}
    rules=${OPENCODE_PERMISSION:-"{\"*\":\"deny\",$reads}"}
    set -- --no-ask
    : >"$out/input"
    ;;
*) fail "WINDLASS_JOB_KIND is review, fix or run, not $kind" ;;
esac
[ -n "$prompt" ] || fail "WINDLASS_JOB_PROMPT has to say what is to be done"

status=0
# Without quotes: they are several.
# shellcheck disable=SC2086
OPENCODE_PERMISSION=$rules windlass run --output json --ephemeral "$@" ${WINDLASS_JOB_OPTIONS:-} -- "$prompt" \
    <"$out/input" >"$out/result.json" || status=$?

field() {
    if command -v jq >/dev/null; then
        jq -r "$1 // \"\"" "$out/result.json"
    else
        python3 -c 'import json, sys; print(json.load(open(sys.argv[1])).get(sys.argv[2]) or "")' "$out/result.json" "${1#.}"
    fi
}
if [ -s "$out/result.json" ]; then
    field .answer >"$out/answer.md"
    publish "$(field .reason)" "$(field .cost)"
fi
exit "$status"
