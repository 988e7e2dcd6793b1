"""Makes the link-time files of an old glibc, so that a program built on a new system starts on old ones.

Zig has the list of every glibc's symbols and writes libraries with these alone, which only the linker reads; they are
linked by the compiler and linker of this machine. Zig's own linker knows neither an order of functions nor the folding of
equal ones.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import venv

# The oldest of the systems that are still supported by their makers has this one.
VERSION = "2.28"
ZIG = "ziglang==0.15.2"
LIBRARIES = ["m", "pthread", "dl", "rt", "util", "resolv"]


def zig(work):
    """Returns the command of Zig, from PyPI."""
    python = work / "zig" / "bin" / "python"
    if not python.is_file():
        venv.create(work / "zig", with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", ZIG], check=True)
    return [str(python), "-m", "ziglang"]


def make(work, machine="x86_64"):
    """Makes the files below a directory, and returns their own."""
    work.mkdir(parents=True, exist_ok=True)
    place = work / f"glibc-{VERSION}-{machine}"
    if place.joinpath("libc.so").is_file():
        return place
    source = work / "empty.c"
    source.write_text("int main(void) { return 0; }\n")
    command = zig(work) + ["build-exe", str(source), "-target", f"{machine}-linux-gnu.{VERSION}", "-lc", "-fllvm", "-flld"]
    command += [f"-l{name}" for name in LIBRARIES] + ["--verbose-link", f"-femit-bin={work / 'empty'}"]
    command += ["--global-cache-dir", str(work / "zig-cache"), "--cache-dir", str(work / "zig-cache")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"zig: {done.stderr}")
    files = {pathlib.Path(word).name: pathlib.Path(word) for word in done.stderr.split() if "/" in word}
    temporary = work / "glibc.new"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    shared = {name: path for name, path in files.items() if re.fullmatch(r"lib\w+\.so\.\d+", name)}
    for name, path in shared.items():
        shutil.copy(path, temporary / name)
    for name in ["crt1.o", "libc_nonshared.a"]:
        shutil.copy(files[name], temporary / name)
    for name in LIBRARIES:
        library = next(it for it in shared if it.startswith(f"lib{name}.so."))
        temporary.joinpath(f"lib{name}.so").symlink_to(library)
    temporary.joinpath("libc.so").write_text("GROUP ( libc.so.6 libc_nonshared.a AS_NEEDED ( libld.so.2 ) )\n")
    temporary.rename(place)
    return place


def link_arguments(place):
    """Returns the arguments by which a compiler links with the files."""
    # The unwinder's library is this machine's, whose own needs are no matter of the program.
    return [f"-B{place}", f"-L{place}", "-Wl,--allow-shlib-undefined"]
