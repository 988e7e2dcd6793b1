//! Schemas that can be used, and those that cannot.

use serde_json::{Value, json};
use windlass_protocol::opencode::message::OutputFormat;

use super::Structured;

fn refusal(schema: Value) -> Option<String> {
    let format = OutputFormat::JsonSchema { schema, retry_count: 2 };
    Structured::read(&format).err().map(|error| error.message)
}

#[test]
fn a_schema_that_cannot_be_used_is_refused_with_its_place() {
    let object = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    assert_eq!(refusal(object), None);
    let of_own = json!({"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}, "$defs": {"n": {}}});
    assert_eq!(refusal(of_own), None);
    assert_eq!(
        refusal(json!({"type": "array"})).as_deref(),
        Some(
            "The schema of the answer cannot be used: it has to describe an object, with `\"type\": \"object\"`."
        )
    );
    let wrong = refusal(json!({"type": "object", "properties": {"n": {"type": "whole"}}}));
    assert!(wrong.as_deref().is_some_and(|it| it.contains("/properties/n/type")), "{wrong:?}");
    for outside in ["file:///etc/passwd", "https://example.com/schema.json"] {
        let refused = refusal(json!({"type": "object", "properties": {"n": {"$ref": outside}}}));
        assert!(refused.as_deref().is_some_and(|it| it.contains("outside of the schema")), "{refused:?}");
    }
}
