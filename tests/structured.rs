//! Answers in the form of a schema, by `windlass run --schema`.

use serde_json::{Value, json};

use crate::{
    cli::{Ended, Machine},
    support::llm::Reply,
};

/// Returns a machine with a schema's file in the repository.
async fn machine() -> Machine {
    let machine = Machine::new().await;
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
        "required": ["name", "age"],
        "additionalProperties": false,
    });
    machine.scratch.write("person.json", schema.to_string());
    machine
}

async fn run(machine: &Machine) -> Ended {
    machine.run(&["run", "--format", "json", "--schema", "person.json", "who is it"]).await
}

fn given(id: &str, person: Value) -> Reply {
    Reply::call(id, "StructuredOutput", person)
}

/// Returns the newest answer as it is stored.
async fn stored(machine: &Machine) -> Value {
    let id = machine.sessions().await[0]["id"].as_str().unwrap().to_owned();
    let exported = machine.run(&["session", "export", &id, "--format", "json", "-o", "-"]).await;
    let record: Value = serde_json::from_str(&exported.stdout).unwrap();
    record["messages"].as_array().unwrap().last().unwrap()["info"].clone()
}

#[tokio::test]
async fn the_validated_object_is_all_that_is_printed() {
    let machine = machine().await;
    machine.llm.reply(Reply::text("I look. ").and_call("call_1", "bash", json!({"command": "echo Ada"})));
    machine.llm.reply(given("call_2", json!({"name": "Ada", "age": 36})).and_text("done"));
    let ended = run(&machine).await;
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(0), "{\"name\":\"Ada\",\"age\":36}\n"),
        "{ended:?}"
    );
    let request = machine.llm.last_request();
    let tools = request.body["tools"].as_array().unwrap();
    let tool = tools.iter().find(|tool| tool["function"]["name"] == "StructuredOutput").expect("the tool");
    let schema = &tool["function"]["parameters"];
    assert_eq!((schema.get("$schema"), &schema["required"]), (None, &json!(["name", "age"])));
    assert!(request.system().contains("calling the tool StructuredOutput"), "{}", request.system());
    assert_eq!(stored(&machine).await["structured"], json!({"name": "Ada", "age": 36}));
    // A prompt without a schema knows nothing of it.
    machine.llm.reply(Reply::text("Ada"));
    machine.run(&["run", "-c", "and now in words"]).await;
    assert!(!machine.llm.last_request().tools().contains(&"StructuredOutput".to_owned()));
    machine.finish().await;
}

#[tokio::test]
async fn what_does_not_fit_is_sent_back_and_words_are_not_taken() {
    let machine = machine().await;
    machine.llm.reply(given("call_1", json!({"name": "Ada", "age": -1})));
    machine.llm.reply(Reply::text("She is Ada."));
    machine.llm.reply(given("call_2", json!({"name": "Ada", "age": 36})));
    let ended = run(&machine).await;
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(0), "{\"name\":\"Ada\",\"age\":36}\n"),
        "{ended:?}"
    );
    let request = machine.llm.last_request();
    let told = request.tool_result("call_1");
    assert!(told.contains("/age") && told.contains("was not accepted"), "{told}");
    assert!(request.last_user().contains("The answer in words was not taken."), "{}", request.last_user());
    machine.finish().await;
}

#[tokio::test]
async fn a_model_that_never_gives_the_object_is_an_error() {
    let machine = machine().await;
    for _ in 0..3 {
        machine.llm.reply(Reply::text("She is Ada."));
    }
    let ended = run(&machine).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:?}");
    let reason = "The model did not give its answer in the form of the schema.";
    assert!(ended.stderr.contains(reason), "{ended:?}");
    assert_eq!(machine.llm.requests().len(), 3);
    let error = &stored(&machine).await["error"];
    assert_eq!((&error["name"], &error["data"]["retries"]), (&json!("StructuredOutputError"), &json!(2)));
    machine.finish().await;
}

#[tokio::test]
async fn a_schema_that_cannot_be_used_is_refused_before_anything_is_asked() {
    let machine = machine().await;
    machine.scratch.write("cut.json", "{\"type\": ");
    machine.scratch.write("list.json", "{\"type\": \"array\"}");
    machine
        .scratch
        .write("wrong.json", "{\"type\": \"object\", \"properties\": {\"n\": {\"type\": \"whole\"}}}");
    for (file, reason) in [
        ("none.json", "none.json: No such file"),
        ("cut.json", "cut.json: is not JSON: EOF while parsing"),
        ("list.json", "it has to describe an object"),
        ("wrong.json", "/properties/n/type"),
    ] {
        let ended = machine.run(&["run", "--schema", file, "who is it"]).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{ended:?}");
        assert!(ended.stderr.contains(reason), "{file}: {ended:?}");
    }
    assert!(machine.sessions().await.is_empty());
    machine.finish().await;
}

#[tokio::test]
async fn the_last_step_has_only_the_tool_of_the_answer() {
    let machine = machine().await.with("agent", json!({"build": {"steps": 2}}));
    machine.llm.reply(Reply::call("call_1", "bash", json!({"command": "echo Ada"})));
    machine.llm.reply(given("call_2", json!({"name": "Ada", "age": 36})));
    let ended = run(&machine).await;
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(0), "{\"name\":\"Ada\",\"age\":36}\n"),
        "{ended:?}"
    );
    assert_eq!(machine.llm.last_request().tools(), ["StructuredOutput"]);
    machine.finish().await;
}
