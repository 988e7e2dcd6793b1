"""Tells which crates are in the program: their licences with texts, and a bill of materials (CycloneDX)."""

import json
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def metadata(target):
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target]
    return json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout)


def linked(data):
    """Returns the packages that the program is linked from: no tools of the build, no tests."""
    packages = {package["id"]: package for package in data["packages"]}
    nodes = {node["id"]: node for node in data["resolve"]["nodes"]}
    root = next(id for id, package in packages.items() if package["name"] == "windlass")
    seen, waiting = set(), [root]
    while waiting:
        id = waiting.pop()
        if id in seen:
            continue
        seen.add(id)
        for dependency in nodes[id]["deps"]:
            is_linked = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            is_macro = any("proc-macro" in target["kind"] for target in packages[dependency["pkg"]]["targets"])
            if is_linked and not is_macro:
                waiting.append(dependency["pkg"])
    found = [packages[id] for id in seen]
    return sorted(found, key=lambda package: (package["name"], package["version"]))


def foreign(packages):
    return [package for package in packages if package["source"]]


def licences(packages):
    """Returns a document with the licence of every crate. A crate without one is an error."""
    missing = [package["name"] for package in packages if not package["license"] and not package["license_file"]]
    if missing:
        raise SystemExit(f"without a licence: {', '.join(missing)}")
    texts = {}
    rows = ["windlass is linked from these crates. The texts of their licences follow, each once.\n"]
    for package in foreign(packages):
        place = pathlib.Path(package["manifest_path"]).parent
        words = package["license"] or "see its file"
        rows.append(f"{package['name']} {package['version']}: {words}")
        names = ("license", "licence", "copying", "notice", "unlicense")
        files = [path for path in sorted(place.iterdir()) if path.name.lower().startswith(names) and path.is_file()]
        for path in files:
            text = path.read_text(errors="replace").strip()
            texts.setdefault(text, []).append(f"{package['name']} ({path.name})")
    for text, owners in texts.items():
        rows.append(f"\n{'-' * 80}\n{', '.join(owners)}\n\n{text}")
    return "\n".join(rows) + "\n"


def bill(packages, version, date):
    """Returns the bill of materials."""
    def component(package):
        entry = {
            "type": "library",
            "bom-ref": f"{package['name']}@{package['version']}",
            "name": package["name"],
            "version": package["version"],
            "purl": f"pkg:cargo/{package['name']}@{package['version']}",
        }
        if package["license"]:
            entry["licenses"] = [{"expression": re.sub(r"\s*/\s*", " OR ", package["license"])}]
        return entry

    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": date,
            "component": {"type": "application", "bom-ref": "windlass", "name": "windlass", "version": version},
        },
        "components": [component(package) for package in foreign(packages)],
    }
