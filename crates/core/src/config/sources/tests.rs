//! Sources of values; the goldens in `fixtures/config` show them for whole setups.

use std::{collections::BTreeSet, path::Path};

use serde_json::{Value, json};

use super::{leaves, render};
use crate::config::{
    layer::{Kind, Layer},
    merge::merged,
};

fn layers(values: &[Value]) -> Vec<Layer> {
    let layers = values.iter().enumerate().map(|(idx, value)| {
        Layer::new(Kind::File, &format!("file{idx}"), Path::new("/"), value.as_object().unwrap().clone())
    });
    layers.collect()
}

#[track_caller]
fn check(values: &[Value], expected: &str) {
    let layers = layers(values);
    assert_eq!(render(&leaves(&merged(&layers), &layers), Some(&BTreeSet::new())), expected);
}

#[test]
fn the_strongest_comes_first_and_what_it_overrode_below() {
    check(
        &[json!({"a": {"b": 1}}), json!({"a": {"b": 2, "c": null}}), json!({"a": {"c": 3}})],
        "a.b = 2\n    file1\n    over file0: 1\na.c = 3\n    file2\n",
    );
    check(
        &[json!({"lsp": {"x": {"disabled": true}}}), json!({"lsp": false})],
        "lsp = false\n    file1\n    over file0: {\"x\":{\"disabled\":true}}\n",
    );
    check(
        &[json!({"lsp": false}), json!({"lsp": {"x": {"disabled": true}}})],
        "lsp.x.disabled = true\n    file1\n    over file0: false\n",
    );
}

#[test]
fn elements_of_joined_lists_have_their_own_sources() {
    check(
        &[
            json!({"instructions": ["a"], "plugin": ["p@1"]}),
            json!({"instructions": ["b"], "plugin": ["p@2"]}),
        ],
        "instructions = \"a\"\n    file0\ninstructions = \"b\"\n    file1\n\
         plugin = \"p@2\"\n    file1\n    over file0: \"p@1\"\n",
    );
}

#[test]
fn secrets_are_masked_in_what_is_overridden_too() {
    check(
        &[json!({"token": "old"}), json!({"token": "new"})],
        "token = \"********\"\n    file1\n    over file0: \"********\"\n",
    );
}

#[test]
fn a_secret_that_a_variable_put_in_is_hidden_where_it_is_said_again() {
    let value = json!({"provider": {"p": {"options": {"token": "acme-4242", "user": "acme-4242"}}},
        "agent": {"a": {"prompt": "Use acme-4242"}}});
    let layers = layers(&[value]);
    let leaves = leaves(&merged(&layers), &layers);
    let shown = render(&leaves, Some(&BTreeSet::from(["acme-4242".to_owned()])));
    assert!(!shown.contains("acme-4242"), "{shown}");
}
