//! The format as models write it. A patch made of two texts turns one into the other.

use similar::{DiffTag, TextDiff};

use super::{Chunk, ChunkLine, Hunk, apply, parse};
use crate::tool::fake::Numbers;

fn envelope(body: &str) -> String {
    format!("*** Begin Patch\n{body}\n*** End Patch")
}

fn chunk(lines: &[&str]) -> Chunk {
    let lines = lines.iter().map(|line| match line.split_at(1) {
        ("+", text) => ChunkLine::Add(text.to_owned()),
        ("-", text) => ChunkLine::Remove(text.to_owned()),
        (_, text) => ChunkLine::Keep(text.to_owned()),
    });
    Chunk { lines: lines.collect(), ..Chunk::default() }
}

fn update(chunks: Vec<Chunk>) -> Hunk {
    Hunk::Update { path: "a".to_owned(), move_to: None, chunks }
}

#[test]
fn an_envelope_holds_any_number_of_files() {
    let body = "*** Add File: new dir/a.txt\n+one\n+\n+two\n\n*** Delete File: b\n*** Update File: a\n*** Move to: c\n@@ fn x\n k\n-o\n+n\n*** End of File";
    let last = Chunk { contexts: vec!["fn x".to_owned()], is_at_end: true, ..chunk(&[" k", "-o", "+n"]) };
    let expected = vec![
        Hunk::Add { path: "new dir/a.txt".to_owned(), content: "one\n\ntwo\n".to_owned() },
        Hunk::Delete { path: "b".to_owned() },
        Hunk::Update { path: "a".to_owned(), move_to: Some("c".to_owned()), chunks: vec![last] },
    ];
    let text = envelope(body);
    assert_eq!(parse(&text).as_ref(), Ok(&expected));
    for wrapped in [
        format!("cat <<'EOF'\n{text}\nEOF"),
        format!("<<EOF\n{text}\nEOF\n"),
        format!("cat << \"PATCH\"\n{text}\nPATCH"),
        format!("Here it is:\n{text}\nDone."),
        text.replace('\n', "\r\n"),
    ] {
        assert_eq!(parse(&wrapped).as_ref(), Ok(&expected), "{wrapped}");
    }
}

#[test]
fn chunks_are_separated() {
    let check = |body: &str, chunks: Vec<Chunk>| {
        assert_eq!(parse(&envelope(&format!("*** Update File: a\n{body}"))), Ok(vec![update(chunks)]));
    };
    check("-a\n+b", vec![chunk(&["-a", "+b"])]);
    check("@@\n-a\n@@\n+b", vec![chunk(&["-a"]), chunk(&["+b"])]);
    check("@@ -1,2 +3,4 @@\n-a", vec![chunk(&["-a"])]);
    check("@@ -1 +1 @@ fn x\n-a", vec![Chunk { contexts: vec!["fn x".into()], ..chunk(&["-a"]) }]);
    check(
        "@@ class A\n@@ fn x\n-a",
        vec![Chunk { contexts: vec!["class A".into(), "fn x".into()], ..chunk(&["-a"]) }],
    );
    check("\n@@\n-a", vec![chunk(&["-a"])]);
    // Models forget the space of an empty line; empty lines before the next file have no meaning.
    check("@@\n a\n\n-b\n\n", vec![chunk(&[" a", " ", "-b"])]);
    check("@@\n-a\n\\ No newline at end of file\n+b", vec![chunk(&["-a", "+b"])]);
    check("@@\n-*** x\n+--- y", vec![chunk(&["-*** x", "+--- y"])]);
}

#[test]
fn text_that_is_no_patch_is_refused() {
    for (text, expected) in [
        ("nonsense".to_owned(), "Invalid patch format: missing Begin/End markers"),
        ("*** Begin Patch\n*** Delete File: a".to_owned(), "Invalid patch format: missing Begin/End markers"),
        ("*** End Patch\n*** Begin Patch".to_owned(), "Invalid patch format: missing Begin/End markers"),
        (envelope("hello"), "Invalid patch format: unexpected line 'hello'"),
        (envelope("*** Delete File:"), "Invalid patch format: no path in '*** Delete File:'"),
        (envelope("*** Add File: a\nx"), "Invalid patch format: 'x' in the new file a has no + before it"),
        (envelope("*** Update File: a"), "Invalid patch format: the update of a has no lines"),
        (
            envelope("*** Update File: a\n@@\nx"),
            "Invalid patch format: 'x' in the update of a begins with none of ' ', '-', '+' and '@@'",
        ),
    ] {
        assert_eq!(parse(&text), Err(expected.to_owned()));
    }
    assert_eq!(parse(&envelope("")), Ok(Vec::new()));
}

#[track_caller]
fn check(text: &str, body: &str, expected: Result<&str, &str>) {
    let hunks = parse(&envelope(&format!("*** Update File: a\n{body}"))).expect("a patch");
    let [Hunk::Update { chunks, .. }] = hunks.as_slice() else { panic!("{hunks:?}") };
    assert_eq!(apply("a", text, chunks), expected.map(str::to_owned).map_err(str::to_owned));
}

#[test]
fn lines_are_found_ever_more_loosely_and_kept_as_they_are() {
    check("a\nb\nc\n", "@@\n a\n-b\n+x\n c", Ok("a\nx\nc\n"));
    check("a  \nb\nc\n", "@@\n a\n-b\n+x", Ok("a  \nx\nc\n"));
    check("\ta\nb \nc\n", "@@\n a\n-  b\n+x", Ok("\ta\nx\nc\n"));
    check("say “hi” – now…\nb\n", "@@\n say \"hi\" - now...\n-b\n+x", Ok("say “hi” – now…\nx\n"));
    // An exact match further down is better than a loose one.
    check(" b\nb\n", "@@\n-b\n+x", Ok(" b\nx\n"));
    check("a\nb\n", "@@\n-z\n+x", Err("Failed to find expected lines in a:\nz"));
    check("", "@@\n-z", Err("Failed to find expected lines in a:\nz"));
}

#[test]
fn a_context_leads_to_the_place() {
    let text = "fn a\n  x\nfn b\n  x\n";
    check(text, "@@ fn b\n-  x\n+  y", Ok("fn a\n  x\nfn b\n  y\n"));
    check(text, "@@ fn b\n+  y", Ok("fn a\n  x\nfn b\n  y\n  x\n"));
    check(text, "@@ fn c\n-  x", Err("Failed to find context 'fn c' in a"));
    check(text, "@@ fn b\n-fn a", Err("Failed to find expected lines in a:\nfn a"));
}

#[test]
fn the_end_of_the_file_is_tried_first_when_it_is_meant() {
    check("x\ny\nx\n", "@@\n-x\n+z\n*** End of File", Ok("x\ny\nz\n"));
    check("x\ny\n", "@@\n-x\n+z\n*** End of File", Ok("z\ny\n"));
    check("x\n", "@@\n+y", Ok("x\ny\n"));
    check("", "@@\n+y", Ok("y\n"));
}

#[test]
fn line_ends_are_the_files_own() {
    check("a\r\nb\r\nc\r\n", "@@\n a\n-b\n+x\n+y", Ok("a\r\nx\r\ny\r\nc\r\n"));
    check("a\nb", "@@\n-b\n+x", Ok("a\nx\n"));
    check("a\nb", "@@\n b\n+x", Ok("a\nb\nx\n"));
    check("a\nb", "@@\n-a\n+x", Ok("x\nb"));
}

#[test]
fn a_patch_of_two_texts_turns_one_into_the_other() {
    let mut numbers = Numbers::new();
    let mut below = |bound: usize| numbers.below(bound);
    for round in 0..2000 {
        // Distinct lines, so that three lines of context identify one place.
        let before: Vec<String> = (0..below(40)).map(|idx| format!("line {idx} of {round}")).collect();
        let mut after = before.clone();
        for edit in 0..below(6) {
            let at = below(after.len() + 1);
            match below(3) {
                0 => after.insert(at, format!("  new {edit}")),
                1 if at < after.len() => drop(after.remove(at)),
                _ if at < after.len() => after[at] = format!("- changed {edit}"),
                _ => after.push(String::new()),
            }
        }
        let line_end = if round % 2 == 0 { "\n" } else { "\r\n" };
        let whole =
            |lines: &[String]| lines.iter().map(|line| format!("{line}{line_end}")).collect::<String>();
        let (old, new): (Vec<&str>, Vec<&str>) =
            (before.iter().map(String::as_str).collect(), after.iter().map(String::as_str).collect());
        let body = body_of(&old, &new, 3);
        if before != after {
            let line_end_is_known = !before.is_empty();
            let expected = if line_end_is_known { whole(&after) } else { whole(&after).replace('\r', "") };
            check(&whole(&before), body.trim_start(), Ok(&expected));
        }
    }
}

/// Makes the body of an update that turns some lines into others.
pub(in crate::tool) fn body_of(old: &[&str], new: &[&str], n_context: usize) -> String {
    let text_diff = TextDiff::configure().diff_slices(old, new);
    let mut body = String::new();
    for ops in text_diff.grouped_ops(n_context) {
        body.push_str("\n@@");
        for (tag, old_range, new_range) in ops.iter().map(similar::DiffOp::as_tag_tuple) {
            if tag == DiffTag::Equal {
                old[old_range].iter().for_each(|line| body.push_str(&format!("\n {line}")));
                continue;
            }
            old[old_range].iter().for_each(|line| body.push_str(&format!("\n-{line}")));
            new[new_range].iter().for_each(|line| body.push_str(&format!("\n+{line}")));
        }
    }
    body
}

/// Lines that repeat, each with its own line end, the last perhaps with none. With the whole file as context,
/// every place is unambiguous.
#[test]
fn a_patch_keeps_the_lines_it_does_not_name_byte_for_byte() {
    const LINES: &[&str] = &["a", "b", "", "}", "  x", "tail "];
    let mut numbers = Numbers::new();
    for _ in 0..5000 {
        let mut before: Vec<(&str, &str)> = (0..1 + numbers.below(12))
            .map(|_| (numbers.pick(LINES), numbers.pick(&["\n", "\r\n"])))
            .collect();
        if numbers.below(2) == 0 {
            before.push(("last", ""));
        }
        let mut after: Vec<(&str, Option<&str>)> =
            before.iter().map(|(text, end)| (*text, Some(*end))).collect();
        for _ in 0..1 + numbers.below(4) {
            let at = numbers.below(after.len() + 1);
            match numbers.below(2) {
                0 if at < after.len() => drop(after.remove(at)),
                _insert => after.insert(at, (numbers.pick(&["new", "neu"]), None)),
            }
        }
        let old: Vec<&str> = before.iter().map(|(text, _)| *text).collect();
        let new: Vec<&str> = after.iter().map(|(text, _)| *text).collect();
        // A removed line beside an equal one could be either of them; they differ in their ends only.
        let is_ambiguous = before.windows(2).any(|pair| pair[0].0 == pair[1].0);
        if old == new || new.is_empty() || is_ambiguous {
            continue;
        }
        let text: String = before.iter().map(|(text, end)| format!("{text}{end}")).collect();
        let body = body_of(&old, &new, 1000);
        let hunks = parse(&envelope(&format!("*** Update File: a\n{}", body.trim_start_matches('\n'))))
            .expect("a patch");
        let [Hunk::Update { chunks, .. }] = hunks.as_slice() else { panic!("{hunks:?}") };
        let applied = apply("a", &text, chunks).expect("applied");
        let bare: Vec<&str> =
            applied.split_inclusive('\n').map(|line| line.trim_end_matches(['\n', '\r'])).collect();
        assert_eq!(bare, new, "{text:?} with {body}");
        // Every kept line has the end it had.
        let pairs = TextDiff::configure().diff_slices(&old, &new);
        let lines: Vec<&str> = applied.split_inclusive('\n').collect();
        for (tag, old_range, new_range) in pairs.ops().iter().map(similar::DiffOp::as_tag_tuple) {
            if tag != DiffTag::Equal {
                continue;
            }
            for (kept, line) in before[old_range].iter().zip(&lines[new_range]) {
                let is_same = **line == format!("{}{}", kept.0, kept.1);
                // A last line without an end gets one if more lines follow.
                assert!(is_same || kept.1.is_empty(), "{text:?} with {body} gave {applied:?}");
            }
        }
    }
}
