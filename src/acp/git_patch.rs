//! Changes of files as patches in Git's form, with absolute paths (facts: ACP §3). Pure.

use std::{fmt::Write, path::Path};

use windlass_base::diff;

/// Returns the patch of one file: no text before means that it is new, none behind that it is deleted.
pub fn of_file(path: &Path, before: Option<&str>, after: Option<&str>) -> String {
    let path = path.to_string_lossy();
    let (from, to) = (before.map_or("/dev/null", |_| &*path), after.map_or("/dev/null", |_| &*path));
    let mut patch = format!("diff --git {path} {path}\n");
    let mode = match (before, after) {
        (None, _) => "new file mode 100644\n",
        (Some(_), None) => "deleted file mode 100644\n",
        (Some(_), Some(_)) => "",
    };
    patch.push_str(mode);
    let unified = diff::unified(&path, before.unwrap_or_default(), after.unwrap_or_default());
    if let Some(start) = unified.patch.find("\n@@ ") {
        // Writing to a string cannot fail.
        let _ = write!(patch, "--- {from}\n+++ {to}\n");
        patch.push_str(&unified.patch[start + 1..]);
    }
    patch
}

#[cfg(test)]
mod tests;
