//! Patches of new, changed and deleted files.

use std::path::Path;

use super::of_file;

fn patch(before: Option<&str>, after: Option<&str>) -> String {
    of_file(Path::new("/work/a.txt"), before, after)
}

#[test]
fn a_change_has_its_hunks_behind_absolute_paths() {
    let expected = "diff --git /work/a.txt /work/a.txt\n--- /work/a.txt\n+++ /work/a.txt\n\
                    @@ -1,2 +1,2 @@\n one\n-two\n+zwei\n";
    assert_eq!(patch(Some("one\ntwo\n"), Some("one\nzwei\n")), expected);
}

#[test]
fn a_new_and_a_deleted_file_have_nothing_on_one_side() {
    let new = "diff --git /work/a.txt /work/a.txt\nnew file mode 100644\n--- /dev/null\n+++ /work/a.txt\n\
               @@ -0,0 +1,1 @@\n+one\n";
    assert_eq!(patch(None, Some("one\n")), new);
    let deleted = "diff --git /work/a.txt /work/a.txt\ndeleted file mode 100644\n--- /work/a.txt\n+++ /dev/null\n\
                   @@ -1,1 +0,0 @@\n-one\n";
    assert_eq!(patch(Some("one\n"), None), deleted);
}

#[test]
fn a_text_that_stays_and_an_empty_new_file_have_no_hunks() {
    assert_eq!(patch(Some("one\n"), Some("one\n")), "diff --git /work/a.txt /work/a.txt\n");
    let empty = "diff --git /work/a.txt /work/a.txt\nnew file mode 100644\n";
    assert_eq!(patch(None, Some("")), empty);
}
