//! The drawing of a text, which does not depend on the pieces in which the text came.

use super::Stream;
use crate::cli::view::{Draw, line::Line, look::Look};

const TEXT: &str = "# Title

A paragraph with *words*, `code` and [a link](https://example.com/x)
that goes on.

- one
- two
  1. nested
  2. items

     with a paragraph
- three

| Name | Size |
|------|-----:|
| a    | 1    |
| long name | 22 |

```rust
fn main() {
    println!(\"hi\"); // said
}
```

> quoted
> text

---
The end.
";

fn texts(rows: &[Line]) -> Vec<String> {
    rows.iter().map(|row| row.text().trim_end().to_owned()).collect()
}

fn whole(text: &str, width: usize) -> Vec<Line> {
    let look = Look::full();
    let mut stream = Stream::default();
    stream.push(text);
    stream.finish(&Draw { look: &look, width })
}

#[test]
fn blocks_are_drawn_for_people() {
    assert_eq!(
        texts(&whole(TEXT, 40)),
        [
            "Title",
            "",
            "A paragraph with words, code and a link",
            "that goes on.",
            "",
            "• one",
            "• two",
            "  1. nested",
            "  2. items",
            "",
            "     with a paragraph",
            "• three",
            "",
            "Name      │ Size",
            "──────────┼─────",
            "a         │    1",
            "long name │   22",
            "",
            "  fn main() {",
            "      println!(\"hi\"); // said",
            "  }",
            "",
            "▎ quoted text",
            "",
            "────────────────────────────────────────",
            "",
            "The end.",
        ]
    );
}

#[test]
fn a_text_that_comes_in_pieces_is_drawn_as_the_whole() {
    let look = Look::full();
    let draw = Draw { look: &look, width: 40 };
    let expected = whole(TEXT, 40);
    for size in [1, 2, 3, 7, 50] {
        let mut stream = Stream::default();
        let mut rows = Vec::new();
        for piece in TEXT.as_bytes().chunks(size) {
            stream.push(std::str::from_utf8(piece).unwrap());
            rows.extend(stream.take_finished(&draw));
            let _ = stream.unfinished(&draw);
        }
        rows.extend(stream.finish(&draw));
        assert_eq!(texts(&rows), texts(&expected), "in pieces of {size}");
    }
}

#[test]
fn code_and_items_do_not_wait_for_the_end_of_their_block() {
    let look = Look::full();
    let draw = Draw { look: &look, width: 40 };
    let mut stream = Stream::default();
    stream.push("```sh\ncargo te");
    assert_eq!(texts(&stream.take_finished(&draw)), [""; 0]);
    assert_eq!(texts(&stream.unfinished(&draw)), ["  cargo te"]);
    stream.push("st\nls\n");
    assert_eq!(texts(&stream.take_finished(&draw)), ["  cargo test", "  ls"]);
    stream.push("```\n\n1. first\n2. sec");
    assert_eq!(texts(&stream.take_finished(&draw)), [""; 0]);
    stream.push("ond\n");
    assert_eq!(texts(&stream.take_finished(&draw)), ["", "1. first"]);
    assert_eq!(texts(&stream.unfinished(&draw)), ["2. second"]);
}

#[test]
fn a_table_without_room_for_columns_is_a_list_of_fields() {
    let text =
        "| Alpha | Beta | Gamma | Delta |\n|---|---|---|---|\n| one thing | two things | three | four |\n";
    assert_eq!(
        texts(&whole(text, 24)),
        ["Alpha: one thing", "Beta: two things", "Gamma: three", "Delta: four"]
    );
    assert_eq!(
        texts(&whole(text, 36)),
        [
            "Alpha     │ Beta     │ Gamma │ Delta",
            "──────────┼──────────┼───────┼──────",
            "one thing │ two      │ three │ four",
            "          │ things   │       │",
        ]
    );
}

#[test]
fn nothing_in_a_text_steers_the_terminal() {
    let look = Look::full();
    let rows = whole("a\x1b[2Jb [x](https://e.com/\x1b]0;t\x07)\n\n```\n\x1b[31mred\n```\n", 60);
    let mut bytes = String::new();
    rows.iter().for_each(|row| row.encode(&look, &mut bytes));
    assert!(
        !bytes.contains("\x1b[2J") && !bytes.contains("\x1b]0") && !bytes.contains("\x1b[31m"),
        "{bytes:?}"
    );
}
