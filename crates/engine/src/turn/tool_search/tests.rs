//! Searches among the tools of servers.

use super::*;

fn tools(names: &[(&str, &str)]) -> BTreeMap<String, Tool> {
    let row = |(name, text): &(&str, &str)| {
        let tool = Tool {
            name: (*name).to_owned().into(),
            text: (*text).to_owned().into(),
            schema: Schema::Shared(Arc::new(json!({"type": "object"}))),
            permission: None,
            look: Look::OTHER,
            offered: Offered::Always,
            run: Run::Shared(Arc::new(|_, _| Box::pin(std::future::pending()))),
        };
        ((*name).to_owned(), tool)
    };
    names.iter().map(row).collect()
}

fn catalogue() -> Catalogue {
    let tools = tools(&[
        ("forge_create_issue", "Opens an issue in a repository."),
        ("forge_listPullRequests", "Lists the pull requests of a repository."),
        ("mail_send", "Sends a letter, also about an issue."),
        ("time_now", "Tells the time."),
    ]);
    let server = |name: &String| name.split('_').next().unwrap().to_owned();
    let defined = tools.keys().map(|it| (it.clone(), Defined { server: server(it), n_bytes: 100 })).collect();
    Catalogue::new(Arc::new(tools), &defined)
}

#[test]
fn what_fits_best_comes_first() {
    let catalogue = catalogue();
    for (query, wanted) in [
        ("issue", &["forge_create_issue", "mail_send"][..]),
        ("Create issues", &["forge_create_issue", "mail_send"]),
        ("pull requests", &["forge_listPullRequests"]),
        ("mail_send", &["mail_send"]),
        ("time_now, mail_send", &["time_now", "mail_send"]),
        ("weather", &[]),
        ("", &[]),
    ] {
        let found: Vec<&str> = catalogue.search(query, 2).iter().map(|(name, _)| *name).collect();
        assert_eq!(found, wanted, "{query}");
    }
    let none = catalogue.run(&Arguments { query: "weather".to_owned(), limit: None }).output;
    assert!(none.contains("No tool fits") && none.contains("- mail (1 tools): mail_send"), "{none}");
}

#[test]
fn the_listing_has_room_for_so_many_names_and_the_number_of_others() {
    let many: Vec<String> = (0..2000).map(|n| format!("large_tool_{n}")).collect();
    let large: Vec<&str> = many.iter().map(String::as_str).collect();
    let listing = listing(&BTreeMap::from([("large", large), ("small", vec!["small_one"])]));
    assert_eq!(listing, "Servers:\n- large (2000 tools): search for them\n- small (1 tools): small_one");
}

#[test]
fn few_definitions_stay_as_they_are_and_a_server_can_be_kept_out() {
    let names = [("a_one", "x"), ("b_two", "y")];
    let defined = HashMap::from([
        ("a_one".to_owned(), Defined { server: "a".to_owned(), n_bytes: 4_000 }),
        ("b_two".to_owned(), Defined { server: "b".to_owned(), n_bytes: 4_000 }),
    ]);
    let split = |above: u64, direct: &[&str]| {
        let direct = direct.iter().map(|it| (*it).to_owned()).collect();
        let mut tools = tools(&names);
        Behind::split(&mut tools, &defined, &ToolSearchSettings { above: Some(above), direct }, &[]);
        tools.into_keys().collect::<Vec<_>>()
    };
    assert_eq!(split(2_000, &[]), ["a_one", "b_two"]);
    assert_eq!(split(1_999, &[]), ["tool_search"]);
    assert_eq!(split(999, &["b"]), ["b_two", "tool_search"]);
    assert_eq!(split(1_000, &["b"]), ["a_one", "b_two"]);
}
