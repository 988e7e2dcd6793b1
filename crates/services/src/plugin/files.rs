//! The host's own program: JavaScript that is part of the binary and is written to the cache once.

use std::{collections::BTreeMap, fs, io, path::Path, path::PathBuf};

use flate2::read::GzDecoder;
use windlass_base::{hash, ids};

const PROGRAM: &[(&str, &str)] = &[
    ("auth.mjs", include_str!("host/auth.mjs")),
    ("bun.mjs", include_str!("host/bun.mjs")),
    (CHECK, include_str!("host/check.cjs")),
    ("channel.mjs", include_str!("host/channel.mjs")),
    ("client.mjs", include_str!("host/client.mjs")),
    ("current.mjs", include_str!("host/current.mjs")),
    ("entry.mjs", include_str!("host/entry.mjs")),
    ("hooks.mjs", include_str!("host/hooks.mjs")),
    ("main.mjs", include_str!("host/main.mjs")),
    ("node.mjs", include_str!("host/node.mjs")),
    ("node_modules/@opencode-ai/tool/index.js", TOOL_MODULE),
    ("node_modules/@opencode-ai/tool/package.json", TOOL_PACKAGE),
    ("registry.mjs", include_str!("host/registry.mjs")),
    ("resolve.mjs", include_str!("host/resolve.mjs")),
    ("shell.mjs", include_str!("host/shell.mjs")),
    ("tools.mjs", include_str!("host/tools.mjs")),
    ("version.mjs", include_str!("host/version.mjs")),
    ("zod3.mjs", include_str!("host/zod3.mjs")),
];
/// The file that Node reads first.
pub const CHECK: &str = "check.cjs";
/// A package of older plugins that has no other part.
const TOOL_MODULE: &str = "export { Tool, ToolRegistry } from \"../../../registry.mjs\";\n";
const TOOL_PACKAGE: &str = r#"{"name":"@opencode-ai/tool","type":"module","exports":"./index.js"}"#;
/// The SDK, zod and a stripper of types, as `make plugin-library` bundles them: texts by path.
const LIBRARY: &[u8] = include_bytes!("library.json.gz");

/// Writes the program below `cache` unless it is there, and returns the path of its first file.
pub fn install(cache: &Path) -> io::Result<PathBuf> {
    let text: Vec<u8> =
        PROGRAM.iter().flat_map(|(_, text)| text.bytes()).chain(LIBRARY.iter().copied()).collect();
    let directory = cache.join(format!("plugin-host-{:016x}", hash::fnv(&text)));
    let main = directory.join("main.mjs");
    if main.is_file() {
        return Ok(main);
    }
    // Whole or not at all: another process may be at it.
    let unfinished = cache.join(format!("plugin-host-{}", ids::random(8)));
    for (path, text) in PROGRAM {
        write(&unfinished.join(path), text)?;
    }
    let library: BTreeMap<String, String> = serde_json::from_reader(GzDecoder::new(LIBRARY))?;
    for (path, text) in &library {
        write(&unfinished.join(path), text)?;
    }
    match fs::rename(&unfinished, &directory) {
        Ok(()) => Ok(main),
        Err(error) => {
            fs::remove_dir_all(&unfinished)?;
            if main.is_file() { Ok(main) } else { Err(error) }
        }
    }
}

fn write(file: &Path, text: &str) -> io::Result<()> {
    if let Some(directory) = file.parent() {
        fs::create_dir_all(directory)?;
    }
    fs::write(file, text)
}
