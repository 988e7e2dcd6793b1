//! A model as the configuration names it.

use windlass_protocol::opencode::model_ref::ModelRef;

/// Splits `provider/model`, and `provider/model#variant`.
pub fn parse_model(text: &str) -> Option<ModelRef> {
    let (name, variant) = match text.split_once('#') {
        Some((name, variant)) => (name, Some(variant.to_owned())),
        None => (text, None),
    };
    let model_ref = ModelRef::parse(name)?;
    Some(ModelRef { variant, ..model_ref })
}

#[cfg(test)]
mod tests;
