//! Display of amounts.

use super::{Row, bar, short, table};

#[test]
fn a_bar_is_as_long_as_its_share() {
    assert_eq!(bar(2.0, 2.0), "█".repeat(20));
    assert_eq!(bar(1.0, 2.0), "█".repeat(10));
    assert_eq!(bar(0.000_1, 2.0), "▏");
    assert_eq!((bar(0.0, 2.0), bar(1.0, 0.0)), (String::new(), String::new()));
}

#[test]
fn a_long_name_loses_its_beginning() {
    let name = short(&"a/".repeat(40));
    assert_eq!((name.chars().count(), name.starts_with('…')), (40, true));
}

#[test]
fn columns_stand_below_each_other() {
    let row = |name: &str, amount: f64, calls: &str| Row {
        name: name.to_owned(),
        amount,
        columns: [calls.to_owned(), "5 %".to_owned(), String::new()],
    };
    let mut out = String::new();
    table(
        &mut out,
        "Tools",
        vec![row("bash", 20.0, "20 calls"), row("read", 1.0, "1 call"), row("x", 0.0, "")],
        2,
    );
    let expected = "
Tools
  bash  ████████████████████  20 calls  5 %
  read  █                       1 call  5 %
  and 1 more
";
    assert_eq!(out, expected);
}
