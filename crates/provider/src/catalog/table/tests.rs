//! The packed catalog.

use serde_json::json;

use super::{Table, pack};

/// Maximum bytes that the catalog may add to the binary.
const MAX_BYTES: usize = 400_000;

#[test]
fn every_provider_of_the_packed_catalog_can_be_unpacked() {
    assert!(super::PACKED.len() <= MAX_BYTES, "{}", super::PACKED.len());
    let table = Table::packed();
    assert_eq!(table.date().map(str::len), Some("2026-11-22".len()));
    let providers = table.providers();
    assert!(providers.is_sorted_by(|one, other| one.id < other.id));
    let n_models: usize = providers.iter().map(|listed| table.models(listed).len()).sum();
    assert!(providers.len() > 200 && n_models > 8_000, "{} {n_models}", providers.len());
}

#[test]
fn a_catalog_is_the_same_when_packed() {
    let json = json!({
        "b": {"id": "b", "name": "Bee", "env": ["B_KEY", "B_HOST"], "npm": "n", "api": "http://b", "models": {
            "m": {"name": "M", "tool_call": true, "description": "long", "limit": {"context": 9, "output": 1},
                  "provider": {"shape": "responses"},
                  "experimental": {"modes": {"fast": {"provider": {"body": {"tier": 1}}}}}},
            "broken": {"limit": "none"},
        }},
        "a": {"models": {}},
    });
    let plain = Table::from_json(&json.to_string()).unwrap();
    let packed = Table::from_bytes(pack(&json.to_string(), "2026-01-02").unwrap()).unwrap();
    assert_eq!((packed.date(), plain.date()), (Some("2026-01-02"), None));
    for table in [&plain, &packed] {
        let providers = table.providers();
        let ids: Vec<&str> = providers.iter().map(|listed| listed.id.as_str()).collect();
        assert_eq!(ids, ["a", "b"]);
        assert_eq!((providers[0].name.as_str(), providers[1].name.as_str()), ("a", "Bee"));
        assert_eq!(providers[1].env, ["B_KEY", "B_HOST"]);
        assert_eq!(providers[1].api.as_deref(), Some("http://b"));
        let models = table.models(&providers[1]);
        assert_eq!(models.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["m"]);
        let config = models[0].1.config();
        assert_eq!(config.limit.map(|limit| limit.context), Some(9));
        assert_eq!(config.provider.unwrap().npm.as_deref(), Some("@ai-sdk/openai"));
        let (mode, fast) = models[0].1.modes().remove(0);
        assert_eq!((mode.as_str(), &fast.options["tier"]), ("fast", &json!(1)));
    }
}

#[test]
fn what_is_no_catalog_is_refused() {
    let packed = pack(&json!({"a": {"models": {"m": {}}}}).to_string(), "2026-01-02").unwrap();
    assert!(Table::from_bytes(packed[..packed.len() - 1].to_vec()).is_none());
    assert!(Table::from_bytes(b"{}".to_vec()).is_none());
    assert!(Table::from_json("[]").is_err());
}
