//! Checks a value against a JSON schema that somebody else wrote.

use boon::{CompileError, Compiler, SchemaIndex, Schemas, UrlLoader};
use serde_json::Value;

/// The address of the schema, from which its own references start.
const ADDRESS: &str = "windlass:///schema";

/// A schema that can be used.
pub struct JsonSchema {
    schemas: Schemas,
    root: SchemaIndex,
}

/// Loads nothing: a schema must not read files.
struct NoLoader;

impl UrlLoader for NoLoader {
    fn load(&self, url: &str) -> Result<Value, Box<dyn std::error::Error>> {
        Err(format!("{url} is outside of the schema").into())
    }
}

impl JsonSchema {
    /// Reads a schema of any draft; an error is the reason why it cannot be used.
    pub fn compile(schema: &Value) -> Result<Self, String> {
        if let Some(name) = of_zod(schema) {
            return Err(format!("it is a {name} of zod, which is no JSON schema"));
        }
        let mut compiler = Compiler::new();
        compiler.use_loader(Box::new(NoLoader));
        let mut schemas = Schemas::new();
        let unfit = |error: CompileError| one_line(&format!("{error:#}"));
        compiler.add_resource(ADDRESS, schema.clone()).map_err(unfit)?;
        let root = compiler.compile(ADDRESS, &mut schemas).map_err(unfit)?;
        Ok(Self { schemas, root })
    }

    /// Checks a value; an error has a line for each place that does not fit.
    pub fn check(&self, value: &Value) -> Result<(), String> {
        self.schemas.validate(value, self.root).map_err(|error| {
            let text = error.to_string();
            text.lines().skip(1).collect::<Vec<_>>().join("\n")
        })
    }
}

/// Returns the name of a type of zod's third version among the values: its internals, which some programs send in place
/// of a schema.
fn of_zod(value: &Value) -> Option<&str> {
    match value {
        Value::Object(fields) => {
            let own = value.pointer("/_def/typeName").and_then(Value::as_str);
            own.filter(|name| name.starts_with("Zod")).or_else(|| fields.values().find_map(of_zod))
        }
        Value::Array(values) => values.iter().find_map(of_zod),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").replace(ADDRESS, "")
}
