//! Tests of [`super`].

use super::{Service, answer};
use crate::tool::{
    fake::{Project, offer},
    find,
    row::Offer,
};

fn project(variables: &[&str]) -> Project {
    let mut project = Project::new();
    for variable in variables {
        let (name, value) = variable.split_once('=').expect("NAME=value");
        project.config.environment.variables.insert(name.to_owned(), value.to_owned());
    }
    project
}

#[test]
fn searching_is_offered_to_opencodes_models_or_by_request() {
    for (variables, provider, websearch, codesearch) in [
        (&[][..], "anthropic", false, false),
        (&[], "opencode", true, true),
        (&[], "opencode-go", true, true),
        (&["OPENCODE_ENABLE_EXA=1"], "anthropic", true, true),
        (&["OPENCODE_ENABLE_EXA=0"], "anthropic", false, false),
        (&["OPENCODE_EXPERIMENTAL_EXA=true"], "anthropic", true, true),
        (&["OPENCODE_EXPERIMENTAL=true"], "anthropic", true, true),
        (&["OPENCODE_ENABLE_PARALLEL=1"], "anthropic", true, false),
        (&["OPENCODE_EXPERIMENTAL_PARALLEL=1"], "anthropic", true, false),
    ] {
        let config = project(variables).config;
        let offer = Offer { provider_id: provider, ..offer(&config) };
        let found =
            ["websearch", "codesearch", "webfetch"].map(|name| find(name).expect(name).is_offered(&offer));
        assert_eq!(found, [websearch, codesearch, true], "{variables:?} {provider}");
    }
}

#[test]
fn a_session_keeps_its_service() {
    for (variables, session, expected) in [
        (&[][..], "a", Service::Exa),
        (&[], "b", Service::Parallel),
        (&["OPENCODE_WEBSEARCH_PROVIDER=exa", "OPENCODE_ENABLE_PARALLEL=1"], "b", Service::Exa),
        (&["OPENCODE_WEBSEARCH_PROVIDER=parallel"], "a", Service::Parallel),
        (&["OPENCODE_WEBSEARCH_PROVIDER=bing"], "a", Service::Exa),
        (&["OPENCODE_ENABLE_EXA=1"], "b", Service::Exa),
        (&["OPENCODE_ENABLE_PARALLEL=1"], "a", Service::Parallel),
    ] {
        let config = project(variables).config;
        assert_eq!(Service::of_session(&config, session), expected, "{variables:?} {session}");
    }
}

#[test]
fn a_key_goes_only_where_the_user_sent_it() {
    let mut project = project(&[]);
    assert_eq!(Service::Exa.url(&project.config), ("https://mcp.exa.ai/mcp".to_owned(), true));
    project.config.settings.windlass.exa_url = Some("http://project.example".to_owned());
    assert_eq!(Service::Exa.url(&project.config), ("http://project.example".to_owned(), false));
    assert_eq!(Service::Parallel.url(&project.config), ("https://search.parallel.ai/mcp".to_owned(), true));
    let variables = &mut project.config.environment.variables;
    variables.insert("WINDLASS_EXA_URL".to_owned(), "http://mine.example".to_owned());
    assert_eq!(Service::Exa.url(&project.config), ("http://mine.example".to_owned(), true));
}

#[test]
fn an_answer_is_read_from_json_and_from_events() {
    let found = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"tea"}]}}"#;
    let ok = |text: &str| Ok(Some(text.to_owned()));
    let failed = |text: &str| Err(text.to_owned());
    for (body, expected) in [
        (found.to_owned(), ok("tea")),
        (format!("event: message\ndata: {found}\n\n"), ok("tea")),
        (format!("event: message\r\ndata: {found}"), ok("tea")),
        (
            format!(
                ": ping\n\ndata: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}}\n\ndata: {found}\n\n"
            ),
            ok("tea"),
        ),
        (r#"{"result":{"content":[]}}"#.to_owned(), Ok(None)),
        (r#"{"result":{"content":[{"type":"text","text":""}]}}"#.to_owned(), Ok(None)),
        (String::new(), Ok(None)),
        (r#"data: {"error":{"code":-32000,"message":"no quota"}}"#.to_owned(), failed(": no quota")),
        (
            r#"{"result":{"isError":true,"content":[{"type":"text","text":"too fast"}]}}"#.to_owned(),
            failed(": too fast"),
        ),
        ("<html>".to_owned(), failed(": the answer is not one of an MCP server")),
    ] {
        assert_eq!(answer(body.as_bytes()), expected, "{body}");
    }
}
