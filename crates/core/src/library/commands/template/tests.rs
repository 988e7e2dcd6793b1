//! Templates: the results for arguments, shell commands and mentions.

use super::*;

/// Expands a template; shell commands appear in angle brackets.
fn expanded(template: &str, arguments: &str) -> String {
    let pieces = expand(template, arguments).into_iter();
    let texts = pieces.map(|piece| match piece {
        Piece::Text(text) => text,
        Piece::Shell(command) => format!("«{command}»"),
        Piece::Unfillable(command) => format!("×{command}×"),
    });
    texts.collect()
}

#[test]
fn arguments_take_their_places() {
    let cases = [
        // template, arguments, expanded
        ("Fix $1 in $2", "a b", "Fix a in b"),
        ("Fix $1 in $2", "a b c  d", "Fix a in b c  d"),
        ("Fix $1 in $2", "a", "Fix a in "),
        ("Fix $1", "", "Fix "),
        ("Fix $1", "a b\nc", "Fix a b\nc"),
        ("$2 $1", "a b c", "b c a"),
        ("$1 $3", "a b c d", "a c d"),
        ("$1|$2", "\"a b\" 'c d'", "a b|c d"),
        ("$1", "\"a b\"", "a b"),
        ("$1", "\"a b\" 'c d'", "\"a b\" 'c d'"),
        ("$1", "say \"hello  world\"", "say \"hello  world\""),
        ("Fix: $1", "don't break the user's build", "Fix: don't break the user's build"),
        ("$1|$2", "the user's build isn't 'as new'", "the|user's build isn't 'as new'"),
        ("$1|$2", "it's fine", "it's|fine"),
        ("$1|$2", "\"open a", "\"open|a"),
        ("$1|$2|$3", "a\"b c\"d", "a|b c|d"),
        ("$1|$2", "\"\" b", "|b"),
        ("<$ARGUMENTS>", "a  b\n\n c", "<a  b\n\n c>"),
        ("<$ARGUMENTS>", "", "<>"),
        ("$1 of $ARGUMENTS", "a b", "a b of a b"),
        ("$1 and $1", "ü ö", "ü ö and ü ö"),
        ("costs $", "", "costs $"),
        ("$HOME $0 $x", "", "$HOME $0 $x"),
        ("$10", "1 2 3 4 5 6 7 8 9 ten eleven", "ten eleven"),
        ("no place", "a  b", "no place\n\na  b"),
        ("no place", " \n", "no place"),
    ];
    for (template, arguments, wanted) in cases {
        assert_eq!(expanded(template, arguments), wanted, "{template:?} with {arguments:?}");
    }
}

#[test]
fn typed_placeholders_are_not_expanded() {
    assert_eq!(expanded("$1 $2", "$2 $ARGUMENTS"), "$2 $ARGUMENTS");
    assert_eq!(expanded("$ARGUMENTS", "!`rm x`"), "!`rm x`");
    assert_eq!(expanded("plain", "!`rm x`"), "plain\n\n!`rm x`");
}

#[test]
fn typed_words_stay_words_of_a_shell_command() {
    let cases = [
        // command, arguments, filled
        ("echo $1", "x; touch y", "«echo 'x;' touch y»"),
        ("echo $1 $2", "'x; touch y' z", "«echo 'x; touch y' z»"),
        ("echo $ARGUMENTS", "a $(touch x)", "«echo a '$(touch' 'x)'»"),
        ("grep \"$1\" .", "\"x$(touch y)\"", "«grep \"x\\$(touch y)\" .»"),
        ("grep \"$1\" .", "'a\"b'", "«grep \"a\\\"b\" .»"),
        ("echo '$1'", "\"it's\"", r"«echo 'it'\''s'»"),
        ("echo \"a'$1\"", "\"x;y\"", "«echo \"a'x;y\"»"),
        (r"echo \' $1", "a;b", r"«echo \' 'a;b'»"),
        ("echo $(cat $1)", "a.txt", "«echo $(cat a.txt)»"),
        ("echo $(cat $1)", "a;b", "×echo $(cat $1)×"),
        ("cat <<X\n$1\nX", "$(touch", "×cat <<X\n$1\nX×"),
        ("echo $1", "~", "«echo '~'»"),
        ("echo $1 done", "", "«echo  done»"),
    ];
    for (command, arguments, wanted) in cases {
        assert_eq!(expanded(&format!("!`{command}`"), arguments), wanted, "{command:?} with {arguments:?}");
    }
}

#[test]
fn shell_commands_are_found_in_the_template() {
    let cases = [
        ("A !`ls -l` b !`pwd`", "", "A «ls -l» b «pwd»"),
        ("!`git show $1`", "abc def", "«git show abc def»"),
        ("!`git show $ARGUMENTS`.", "abc", "«git show abc»."),
        ("!`` and !`ls`", "", "!`` and «ls»"),
        ("!`open", "", "!`open"),
        ("`ls` !ls", "", "`ls` !ls"),
        ("!`a\nb`", "", "«a\nb»"),
    ];
    for (template, arguments, wanted) in cases {
        assert_eq!(expanded(template, arguments), wanted, "{template:?} with {arguments:?}");
    }
}

#[test]
fn words_alone_are_filled_and_shell_stays_words() {
    let cases = [
        ("Do $1, then $2.", "a \"b c\" d", "Do a, then \"b c\" d."),
        ("All: $ARGUMENTS", "x  y", "All: x  y"),
        ("See !`rm $1` and @a", "b", "See !`rm b` and @a"),
        ("Nothing", "x\n  y", "Nothing\n\nx\n  y"),
        // A missing argument is empty, as in a command's template.
        ("Do $1, then $2: $ARGUMENTS.", "", "Do , then : ."),
        ("Do $1, then $2.", "a", "Do a, then ."),
    ];
    for (text, arguments, wanted) in cases {
        assert_eq!(
            expand_words(text, arguments),
            [Piece::Text(wanted.to_owned())],
            "{text} with {arguments}"
        );
    }
    for (arguments, wanted) in [("", "Write $ARGUMENTS"), ("a", "Write $ARGUMENTS\n\na")] {
        assert_eq!(
            append_words("Write $ARGUMENTS", arguments),
            [Piece::Text(wanted.to_owned())],
            "a manual has no places"
        );
    }
}

#[test]
fn a_hint_lists_the_placeholders() {
    let cases = [
        ("no", None),
        ("$1", Some("<1>")),
        ("$3 $1", Some("<1> <2> <3>")),
        ("$ARGUMENTS", Some("arguments")),
        (" \n", Some("message")),
    ];
    for (template, wanted) in cases {
        assert_eq!(hint(template).as_deref(), wanted, "{template}");
    }
}

#[test]
fn mentions_are_found() {
    let cases: [(&str, &[&str]); 9] = [
        ("look at @src/main.rs, and @README.md.", &["src/main.rs", "README.md"]),
        ("@a @a", &["a"]),
        ("mail me@home.org", &[]),
        ("`@not` and `x @y`", &["y"]),
        ("(@in)", &["in)"]),
        ("@~/notes.txt", &["~/notes.txt"]),
        ("@.env", &[".env"]),
        ("@", &[]),
        ("@../up", &["../up"]),
    ];
    for (text, wanted) in cases {
        assert_eq!(mentions(text), wanted, "{text}");
    }
}
