"""Packs a release: archives and packages of one program, for every way by which it is installed.

Equal input makes equal files: times are the commit's, owners are root, and entries are sorted.
"""

import base64
import gzip
import hashlib
import io
import json
import lzma
import pathlib
import shutil
import subprocess
import tarfile
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TEMPLATES = pathlib.Path(__file__).resolve().parent / "templates"

# What each platform is called: by us, by npm, by PyPI, by Debian, and by compilers.
PLATFORMS = {
    "linux-x86_64": ("linux-x64", "manylinux_2_28_x86_64", "amd64", "x86_64-unknown-linux-gnu"),
    "linux-aarch64": ("linux-arm64", "manylinux_2_28_aarch64", "arm64", "aarch64-unknown-linux-gnu"),
    "linux-x86_64-musl": ("linux-x64-musl", "musllinux_1_2_x86_64", None, "x86_64-unknown-linux-musl"),
    "darwin-aarch64": ("darwin-arm64", "macosx_11_0_arm64", None, "aarch64-apple-darwin"),
    "darwin-x86_64": ("darwin-x64", "macosx_10_12_x86_64", None, "x86_64-apple-darwin"),
}
# Every platform but this one was never built here.
HERE = "linux-x86_64"


class Release:
    """The facts that all packages share."""

    def __init__(self, metadata, date, releases, repository, dist):
        self.version = metadata["version"]
        self.description = metadata["description"]
        self.license = metadata["license"]
        self.authors = metadata["authors"]
        # Seconds since the epoch.
        self.date = date
        self.releases = releases
        self.repository = repository
        self.dist = dist

    def url(self, name):
        return f"{self.releases}/v{self.version}/{name}"

    def write(self, name, data):
        path = self.dist / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    def template(self, name, **more):
        """Fills a template: @NAME@ stands for a value."""
        text = TEMPLATES.joinpath(name).read_text()
        values = {
            "VERSION": self.version,
            "DESCRIPTION": self.description,
            "LICENSE": self.license,
            "RELEASES": self.releases,
            "REPOSITORY": self.repository,
            **more,
        }
        for key, value in values.items():
            text = text.replace(f"@{key}@", value)
        return text


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def tar(release, files):
    """Returns an archive of files: name, content and mode."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        made = set()
        for name, content, mode in sorted(files):
            for parent in reversed(pathlib.PurePosixPath(name).parents):
                if str(parent) not in (".", "/") and parent not in made and not name.startswith("package/"):
                    made.add(parent)
                    # As `dpkg-deb` writes them.
                    start = "./" if name.startswith("./") else ""
                    entry = tarfile.TarInfo(f"{start}{parent}")
                    entry.type, entry.mode, entry.mtime = tarfile.DIRTYPE, 0o755, release.date
                    entry.uname = entry.gname = "root"
                    archive.addfile(entry)
            entry = tarfile.TarInfo(name)
            entry.uname = entry.gname = "root"
            entry.size, entry.mode, entry.mtime = len(content), mode, release.date
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def gz(data):
    return gzip.compress(data, 9, mtime=0)


def archives(release, platform, program, documents):
    """Packs the program with its licences, man pages and completions."""
    top = f"windlass-{release.version}-{platform}"
    files = [("windlass", program.read_bytes(), 0o755)]
    files += [(name, content, 0o644) for name, content in documents.items()]
    data = tar(release, files)
    release.write(f"{top}.tar.gz", gz(data))
    release.write(f"{top}.tar.xz", lzma.compress(data, preset=9 | lzma.PRESET_EXTREME))


def npm(release, platform, program, documents):
    """Packs the platform's package, and those that everybody installs: `windlass`, and one that is called as OpenCode is."""
    base = {
        "version": release.version,
        "license": release.license,
        "repository": {"type": "git", "url": f"git+{release.repository}.git"},
    }
    own = PLATFORMS[platform][0]
    system, processor, *libc = own.split("-")
    package = {
        "name": f"windlass-{own}",
        **base,
        "description": f"windlass for {own}",
        "os": [system],
        "cpu": [processor],
        **({"libc": libc} if libc else {"libc": ["glibc"]} if system == "linux" else {}),
        "preferUnplugged": True,
        "files": ["bin", "LICENSE"],
    }
    licence = documents["LICENSE"]
    put_npm(release, package, {"bin/windlass": (program.read_bytes(), 0o755), "LICENSE": (licence, 0o644)})
    shim = TEMPLATES.joinpath("npm.js").read_bytes()
    readme = release.template("npm.md").encode()
    main = {
        "name": "windlass",
        **base,
        "description": release.description,
        "bin": {"windlass": "bin/windlass.js"},
        "engines": {"node": ">=18"},
        "files": ["bin", "LICENSE", "README.md"],
        "optionalDependencies": {f"windlass-{names[0]}": release.version for names in PLATFORMS.values()},
    }
    files = {"bin/windlass.js": (shim, 0o755), "README.md": (readme, 0o644), "LICENSE": (licence, 0o644)}
    put_npm(release, main, files)
    alias = {
        "name": "windlass-as-opencode",
        **base,
        "description": "windlass under the name `opencode`",
        "bin": {"opencode": "bin/opencode.js"},
        "engines": {"node": ">=18"},
        "files": ["bin", "LICENSE"],
        "dependencies": {"windlass": release.version},
    }
    as_opencode = b'#!/usr/bin/env node\nrequire("windlass/bin/windlass.js");\n'
    put_npm(release, alias, {"bin/opencode.js": (as_opencode, 0o755), "LICENSE": (licence, 0o644)})


def put_npm(release, package, files):
    entries = [("package/package.json", (json.dumps(package, indent=2) + "\n").encode(), 0o644)]
    entries += [(f"package/{name}", content, mode) for name, (content, mode) in files.items()]
    release.write(f"npm/{package['name']}-{release.version}.tgz", gz(tar(release, entries)))


def wheel(release, platform, program, documents):
    """Packs a wheel: the program is a script of it."""
    tag = f"py3-none-{PLATFORMS[platform][1]}"
    info = f"windlass-{release.version}.dist-info"
    metadata = release.template("METADATA")
    files = {
        f"windlass-{release.version}.data/scripts/windlass": (program.read_bytes(), 0o755),
        f"{info}/METADATA": (metadata.encode(), 0o644),
        f"{info}/WHEEL": (f"Wheel-Version: 1.0\nGenerator: windlass\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(), 0o644),
        f"{info}/licenses/LICENSE": (documents["LICENSE"], 0o644),
    }
    record = []
    for name, (content, _) in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record.append(f"{name},sha256={digest},{len(content)}")
    record.append(f"{info}/RECORD,,")
    files[f"{info}/RECORD"] = ("\n".join(record).encode() + b"\n", 0o644)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, (content, mode) in files.items():
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    release.write(f"pypi/windlass-{release.version}-{tag}.whl", out.getvalue())


def deb(release, platform, program, documents):
    """Packs a Debian package with man pages and completions."""
    architecture = PLATFORMS[platform][2]
    files = [("./usr/bin/windlass", program.read_bytes(), 0o755)]
    for name, content in documents.items():
        path = pathlib.PurePosixPath(name)
        match path.parts:
            case ("man", page):
                files.append((f"./usr/share/man/man1/{page}.gz", gz(content), 0o644))
            case ("completions", "windlass.bash"):
                files.append(("./usr/share/bash-completion/completions/windlass", content, 0o644))
            case ("completions", "_windlass"):
                files.append(("./usr/share/zsh/vendor-completions/_windlass", content, 0o644))
            case ("completions", "windlass.fish"):
                files.append(("./usr/share/fish/vendor_completions.d/windlass.fish", content, 0o644))
            case ("LICENSE",):
                files.append(("./usr/share/doc/windlass/copyright", content, 0o644))
            case (_,):
                files.append((f"./usr/share/doc/windlass/{name}.gz", gz(content), 0o644))
    size = sum(len(content) for _, content, _ in files) // 1024
    control = release.template("control", ARCHITECTURE=architecture, SIZE=str(size))
    sums = "".join(f"{hashlib.md5(content).hexdigest()}  {name[2:]}\n" for name, content, _ in sorted(files))
    control_files = [("./control", control.encode(), 0o644), ("./md5sums", sums.encode(), 0o644)]
    members = [
        ("debian-binary", b"2.0\n"),
        ("control.tar.gz", gz(tar(release, control_files))),
        ("data.tar.xz", lzma.compress(tar(release, files), preset=9 | lzma.PRESET_EXTREME)),
    ]
    out = b"!<arch>\n"
    for name, content in members:
        out += f"{name:<16}{release.date:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode()
        out += content + b"\n" * (len(content) % 2)
    release.write(f"windlass_{release.version}_{architecture}.deb", out)


def addresses(release):
    """Writes the files that name other files of the release: installer, formula, flake, registries."""
    sums = {path.name: sha256(path) for path in sorted(release.dist.glob("windlass-*.tar.gz"))}
    platforms = {name[len(f"windlass-{release.version}-") : -len(".tar.gz")]: digest for name, digest in sums.items()}
    release.write("VERSION", f"{release.version}\n")
    release.write("install.sh", release.template("install.sh")).chmod(0o755)
    blocks, systems = [], []
    for platform, digest in platforms.items():
        url = release.url(f"windlass-{release.version}-{platform}.tar.gz")
        if platform in ("linux-x86_64", "linux-aarch64", "darwin-x86_64", "darwin-aarch64"):
            system, processor = platform.split("-")
            condition = f"OS.{'linux' if system == 'linux' else 'mac'}? && Hardware::CPU.{'arm' if processor == 'aarch64' else 'intel'}?"
            blocks.append(f'  if {condition}\n    url "{url}"\n    sha256 "{digest}"\n  end\n')
            nix = f"{processor}-{system}"
            systems.append(f'      "{nix}" = {{\n        url = "{url}";\n        sha256 = "{digest}";\n      }};\n')
    release.write("homebrew/windlass.rb", release.template("windlass.rb", BLOCKS="\n".join(blocks).rstrip()))
    release.write("nix/flake.nix", release.template("flake.nix", SYSTEMS="".join(systems).rstrip()))
    binaries = {}
    for platform in ("darwin-aarch64", "darwin-x86_64", "linux-aarch64", "linux-x86_64"):
        name = f"windlass-{release.version}-{platform}.tar.gz"
        if name in sums:
            archive = {"archive": release.url(name), "sha256": sums[name]}
            binaries[platform] = {**archive, "cmd": "./windlass", "args": ["acp"]}
    entry = {
        "id": "windlass",
        "name": "windlass",
        "version": release.version,
        "description": release.description,
        "repository": release.repository,
        "website": release.repository,
        "authors": release.authors,
        "license": release.license,
        "license_url": f"{release.repository}/blob/v{release.version}/LICENSE",
        "distribution": {"binary": binaries, "npx": {"package": f"windlass@{release.version}", "args": ["acp"]}},
    }
    release.write("registry/windlass/agent.json", json.dumps(entry, indent=2) + "\n")
    shutil.copy(ROOT / ".ci" / "registry-icon.svg", release.dist / "registry" / "windlass" / "icon.svg")


def root_file_system(release, platform, program, suite="bookworm"):
    """Packs a container's root file system: Debian with git, certificates, and the program for an ordinary user."""
    with tempfile.TemporaryDirectory() as temporary:
        root = pathlib.Path(temporary) / "root"
        include = "--include=ca-certificates,curl,git,jq"
        command = ["debootstrap", "--variant=minbase", include, suite, root]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        shutil.copy(program, root / "usr/local/bin/windlass")
        shutil.copy(ROOT / "ci/job.sh", root / "usr/local/bin/windlass-job")
        for left in ["var/cache/apt", "var/lib/apt/lists", "var/log"]:
            shutil.rmtree(root / left, ignore_errors=True)
            root.joinpath(left).mkdir(parents=True, exist_ok=True)
        subprocess.run(["chroot", root, "useradd", "--create-home", "agent"], check=True)
        name = release.dist / f"windlass-{release.version}-{platform}-rootfs.tar.gz"
        command = ["tar", "--sort=name", f"--mtime=@{release.date}", "--numeric-owner", "-C", root, "-c", "."]
        packed = subprocess.run(command, check=True, capture_output=True).stdout
        name.write_bytes(gz(packed))


def checksums(release):
    """Lists the checksums of all files."""
    paths = sorted(path for path in release.dist.rglob("*") if path.is_file() and path.name != "SHA256SUMS")
    lines = [f"{sha256(path)}  {path.relative_to(release.dist)}\n" for path in paths]
    release.write("SHA256SUMS", "".join(lines))
