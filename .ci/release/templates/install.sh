#!/bin/sh
# Installs windlass for this user: the newest release, or another one.
#
#   sh install.sh [--version VERSION] [--dir DIRECTORY] [--uninstall]
#
# The program goes to DIRECTORY (~/.local/bin), man pages and completions below ~/.local/share. Nothing else is changed, and
# no root is needed. WINDLASS_RELEASES is the address of other releases.
set -eu

releases=${WINDLASS_RELEASES:-@RELEASES@}
version=@VERSION@
bin=$HOME/.local/bin
share=${XDG_DATA_HOME:-$HOME/.local/share}
uninstall=

say() {
    printf '%s\n' "$*"
}

fail() {
    printf 'install.sh: %s\n' "$*" >&2
    exit 1
}

while [ $# -gt 0 ]; do
    case $1 in
    --version)
        [ $# -ge 2 ] || fail "--version needs a version"
        version=${2#v}
        shift 2
        ;;
    --dir)
        [ $# -ge 2 ] || fail "--dir needs a directory"
        bin=$2
        shift 2
        ;;
    --uninstall)
        uninstall=yes
        shift
        ;;
    --help | -h)
        sed -n '2,7s/^# \{0,1\}//p' "$0"
        exit 0
        ;;
    *) fail "$1 is not known; see --help" ;;
    esac
done

# What is installed beside the program, below $share.
completions='bash-completion/completions/windlass zsh/site-functions/_windlass fish/vendor_completions.d/windlass.fish'

if [ -n "$uninstall" ]; then
    [ -e "$bin/windlass" ] || fail "there is no $bin/windlass; name its directory by --dir"
    rm -f "$bin/windlass"
    for file in $completions; do rm -f "$share/$file"; done
    rm -f "$share"/man/man1/windlass.1 "$share"/man/man1/windlass-*.1
    say "windlass is removed from $bin. Sessions and settings stay: ~/.local/share/windlass, ~/.config/opencode."
    exit 0
fi

case $(uname -s) in
Linux) system=linux ;;
Darwin) system=darwin ;;
*) fail "there is no release for $(uname -s); build it from source" ;;
esac
case $(uname -m) in
x86_64 | amd64) machine=x86_64 ;;
aarch64 | arm64) machine=aarch64 ;;
*) fail "there is no release for $(uname -m); build it from source" ;;
esac
platform=$system-$machine
if [ "$system" = linux ] && ldd --version 2>&1 | grep -qi musl; then
    platform=$platform-musl
fi

if command -v curl >/dev/null 2>&1; then
    fetch() { curl --fail --silent --show-error --location --proto '=https,http,file' --output "$2" "$1"; }
elif command -v wget >/dev/null 2>&1; then
    fetch() { wget --quiet --output-document="$2" "$1"; }
else
    fail "curl or wget is needed"
fi
if command -v sha256sum >/dev/null 2>&1; then
    sum() { sha256sum "$1" | cut -d ' ' -f 1; }
elif command -v shasum >/dev/null 2>&1; then
    sum() { shasum -a 256 "$1" | cut -d ' ' -f 1; }
else
    fail "sha256sum or shasum is needed, to check what is installed"
fi
case $releases in
https://* | file://* | http://127.0.0.1* | http://localhost*) ;;
*) fail "releases are fetched by https alone, not from $releases" ;;
esac

name=windlass-$version-$platform
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

say "Fetching $releases/v$version/$name.tar.gz"
fetch "$releases/v$version/SHA256SUMS" "$work/SHA256SUMS" || fail "there is no release $version at $releases"
fetch "$releases/v$version/$name.tar.gz" "$work/$name.tar.gz" || fail "release $version has nothing for $platform"
wanted=$(sed -n "s/^\([0-9a-f]\{64\}\)  $name\.tar\.gz\$/\1/p" "$work/SHA256SUMS")
[ -n "$wanted" ] || fail "the release does not say the checksum of $name.tar.gz"
[ "$(sum "$work/$name.tar.gz")" = "$wanted" ] || fail "$name.tar.gz does not have the checksum of the release; nothing is installed"
mkdir "$work/files"
tar -xzf "$work/$name.tar.gz" -C "$work/files"
"$work/files/windlass" --version >/dev/null || fail "the program does not run here; nothing is installed"

mkdir -p "$bin"
# One that runs goes on with its own file.
cp "$work/files/windlass" "$bin/.windlass.new"
chmod 755 "$bin/.windlass.new"
mv -f "$bin/.windlass.new" "$bin/windlass"
mkdir -p "$share/man/man1"
cp "$work"/files/man/*.1 "$share/man/man1/"
for file in $completions; do mkdir -p "$share/${file%/*}"; done
cp "$work/files/completions/windlass.bash" "$share/bash-completion/completions/windlass"
cp "$work/files/completions/_windlass" "$share/zsh/site-functions/_windlass"
cp "$work/files/completions/windlass.fish" "$share/fish/vendor_completions.d/windlass.fish"

say "Installed windlass $version in $bin."
case :$PATH: in
*":$bin:"*) say "Try: windlass demo" ;;
*) say "$bin is not on your PATH. Try: $bin/windlass demo" ;;
esac
