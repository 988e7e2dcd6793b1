//! Names of models.

use super::parse_model;

#[test]
fn a_model_is_provider_model_and_maybe_a_variant() {
    let shown = |text: &str| {
        parse_model(text).map(|model| format!("{}|{}|{:?}", model.provider_id, model.model_id, model.variant))
    };
    assert_eq!(shown("a/b").as_deref(), Some("a|b|None"));
    assert_eq!(shown("a/b/c#high").as_deref(), Some("a|b/c|Some(\"high\")"));
    assert_eq!([shown("a"), shown("/b"), shown("a/"), shown("")], [None, None, None, None]);
}
