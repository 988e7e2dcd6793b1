//! Changes come back as they were, in the directory that the project has at the reader.

use std::sync::Arc;

use serde_json::json;
use windlass_protocol::opencode::{
    id::{MessageId, PartId, SessionId},
    part::Part,
};

use super::*;

fn keys(own: Option<&str>) -> Keys {
    Keys::new(b"the fleet's key", own)
}

fn part(kind: Value) -> Write {
    let mut part = json!({"id": "prt_1", "messageID": "msg_1", "sessionID": "ses_1"});
    part.as_object_mut().unwrap().extend(kind.as_object().unwrap().clone());
    Write::Part(Arc::new(serde_json::from_value::<Part>(part).unwrap()))
}

fn tool(command: &str, output: &str) -> Write {
    part(json!({"type": "tool", "tool": "bash", "callID": "call_1", "state": {
        "status": "completed", "input": {"command": command}, "output": output, "title": "", "metadata": {},
        "time": {"start": 1, "end": 2}}}))
}

/// Returns a change as a machine with another checkout reads it.
#[track_caller]
fn read_there(write: &Write, keys: &Keys) -> Value {
    let encoded = encode(std::slice::from_ref(write), "/home/a/proj", keys, "ses_1", "event 1").unwrap();
    let blobs = encoded.blobs.into_iter().collect();
    let decoded = decode(&encoded.data, "/srv/b", keys, "ses_1", "event 1", &blobs).unwrap();
    serde_json::to_value(&decoded[0]).unwrap()
}

#[test]
fn paths_of_the_project_are_turned_and_others_stay() {
    let write = tool(
        "cat /home/a/proj/x '/home/a/proj' /home/a/project/y /x/home/a/proj/z",
        "in /home/a/proj/src: \u{E000}project\u{E000} and \u{E000}",
    );
    let read = read_there(&write, &keys(None));
    let state = &read["part"]["state"];
    assert_eq!(state["input"]["command"], "cat /srv/b/x '/srv/b' /home/a/project/y /x/home/a/proj/z");
    assert_eq!(state["output"], "in /srv/b/src: \u{E000}project\u{E000} and \u{E000}");
}

#[test]
fn words_of_people_and_models_stay_as_they_are() {
    let words = "I changed /home/a/proj/x. \u{E000}blob \u{E000}";
    let read = read_there(&part(json!({"type": "text", "text": words})), &keys(None));
    assert_eq!(read["part"]["text"], words);
}

#[test]
fn a_large_text_is_kept_once_and_comes_back() {
    let large = "/home/a/proj/x\n".repeat(LARGE);
    for own in [None, Some("secret")] {
        let keys = keys(own);
        let writes = [tool("cat", &large), tool("tac", &large)];
        let encoded = encode(&writes, "/home/a/proj", &keys, "ses_1", "event 1").unwrap();
        assert_eq!(encoded.blobs.len(), 1);
        assert!(encoded.data.len() < LARGE);
        let blobs = encoded.blobs.into_iter().collect();
        let decoded = decode(&encoded.data, "/home/a/proj", &keys, "ses_1", "event 1", &blobs).unwrap();
        for (read, write) in decoded.iter().zip(&writes) {
            assert_eq!(serde_json::to_value(read).unwrap(), serde_json::to_value(write).unwrap());
        }
        let missing = decode(&encoded.data, "/", &keys, "ses_1", "event 1", &HashMap::new());
        assert_eq!(missing.unwrap_err(), Unreadable("a large text is missing".to_owned()));
    }
}

#[test]
fn every_kind_of_change_comes_back() {
    let session_id = SessionId::parse("ses_1").unwrap();
    let id = MessageId::parse("msg_1").unwrap();
    let writes = vec![
        Write::RemoveMessage { session_id: session_id.clone(), id: id.clone() },
        Write::RemovePart { session_id: session_id.clone(), id: PartId::parse("prt_1").unwrap() },
        Write::Rename { session_id: session_id.clone(), title: "ä".to_owned() },
        Write::Choose { session_id: session_id.clone(), agent: Some("plan".to_owned()), model: None },
        Write::KeepPrompt { session_id: session_id.clone(), id: id.clone(), prompt: json!({"parts": []}) },
        Write::TakePrompt { session_id: session_id.clone(), id },
        Write::ForgetKnownFiles { session_id, since: 4 },
    ];
    for own in [None, Some("secret")] {
        let keys = keys(own);
        let encoded = encode(&writes, "/w", &keys, "ses_1", "event 1").unwrap();
        let decoded = decode(&encoded.data, "/w", &keys, "ses_1", "event 1", &HashMap::new()).unwrap();
        assert_eq!(serde_json::to_value(&decoded).unwrap(), serde_json::to_value(&writes).unwrap());
    }
}

#[test]
fn garbage_and_texts_of_another_place_or_key_are_refused_with_a_reason() {
    let secret = keys(Some("secret"));
    let sealed = pack(b"words", &secret, "event ses_1 1").unwrap();
    assert_eq!(unpack(&sealed, &secret, "event ses_1 1").unwrap(), b"words");
    for (data, keys, place, reason) in [
        (sealed.clone(), keys(Some("other")), "event ses_1 1", "another `windlass.shared.key`"),
        (sealed.clone(), keys(Some("secret")), "event ses_1 2", "another `windlass.shared.key`"),
        (sealed.clone(), keys(None), "event ses_1 1", "`windlass.shared.key` is not set"),
        (pack(b"words", &keys(None), "x").unwrap(), keys(Some("secret")), "x", "it is not encrypted"),
        (Vec::new(), keys(None), "x", "it is empty"),
        (vec![200, 1, 2], keys(None), "x", "its form is not known here"),
    ] {
        let refused = unpack(&data, &keys, place).unwrap_err().to_string();
        assert!(refused.contains(reason), "{refused}");
    }
    let bomb = pack(&vec![0; 300 << 20], &keys(None), "x").unwrap();
    assert!(unpack(&bomb, &keys(None), "x").unwrap_err().to_string().contains("larger than"));
    let words = pack(b"no JSON", &keys(None), "x").unwrap();
    decode(&words, "/", &keys(None), "ses_1", "x", &HashMap::new()).unwrap_err();
}
