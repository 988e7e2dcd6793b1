//! Long messages are read in pieces of any size, with their keys in any order.

use serde_json::json;

use super::*;

fn shortened(message: &str, piece: usize, asked: &Asked) -> (Value, String) {
    let directory = tempfile::tempdir().unwrap();
    let mut large = Large::new(directory.path());
    for piece in message.as_bytes().chunks(piece) {
        large.feed(piece);
    }
    let answer = large.shortened(asked);
    let files = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
    let saved = files.map(|path| fs::read_to_string(path).unwrap()).collect();
    (answer, saved)
}

#[test]
fn texts_are_saved_and_the_id_is_found_wherever_it_stands() {
    let text = "a \"line\"\n\u{e9}\u{1F600}\\";
    let content = json!([
        {"type": "text", "text": text},
        {"type": "image", "data": "AAAA", "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "a://b", "text": "two"}},
    ]);
    let result = json!({"content": content, "isError": true, "structuredContent": {"text": "x", "id": 9}});
    let first = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{result}}}"#);
    let last = format!(r#"{{"result":{result} , "id" : "7" , "jsonrpc":"2.0"}}"#);
    let escaped = first.replace('\u{e9}', "\\u00e9").replace('\u{1F600}', "\\ud83d\\uDE00");
    for (message, id) in [(&first, json!(7)), (&last, json!("7")), (&escaped, json!(7))] {
        for piece in [1, 3, 1000] {
            let (answer, saved) = shortened(message, piece, &Asked::Call);
            assert_eq!(answer["id"], id);
            assert_eq!(answer["result"]["isError"], true);
            assert_eq!(saved, format!("{text}\n\ntwo"));
            let shown = answer["result"]["content"][0]["text"].as_str().unwrap();
            assert!(shown.starts_with(text) && shown.contains("Its text is saved to: /"), "{shown}");
        }
    }
}

#[test]
fn what_is_no_result_of_a_tool_is_an_error() {
    let (answer, saved) = shortened(r#"{"id":1,"result":{"tools":[{"name":"a"}]}}"#, 5, &Asked::Other);
    assert_eq!(answer["error"]["message"], "the answer has 42 bytes, which is too much");
    assert_eq!(saved, "");
    let (answer, _) = shortened(r#"{"id":1,"error":{"code":3,"message":"no"}}"#, 5, &Asked::Call);
    assert_eq!(answer["error"]["message"], "no");
    let message = r#"{"id":1,"result":{"contents":[{"uri":"a://x","text":"hello"}]}}"#;
    let (answer, saved) = shortened(message, 5, &Asked::Read("a://x".to_owned()));
    assert_eq!((answer["result"]["contents"][0]["uri"].as_str(), saved.as_str()), (Some("a://x"), "hello"));
    let mut call = Large::new(Path::new("/nowhere"));
    call.feed(br#"{"id":1,"method":"sampling/createMessage","params":{}}"#);
    assert_eq!(call.id(), None);
}
