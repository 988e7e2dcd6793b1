//! The rows of traces.

use super::View;

fn rows(mut view: View, trace: &str) -> String {
    let mut rows: Vec<String> = trace.lines().flat_map(|line| view.line(line)).collect();
    rows.extend(view.end());
    rows.join("\n")
}

const TURN: &str = r#"-> {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}
<- {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}
-> {"jsonrpc":"2.0","id":"a","method":"session/prompt","params":{"sessionId":"ses_one_abcdef","prompt":[{"type":"text","text":"look\nhere"},{"type":"resource_link","uri":"file:///x","name":"x"},{"type":"image"}]}}
<- {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"ses_one_abcdef","update":{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"Let me "}}}}
<- {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"ses_one_abcdef","update":{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"look."}}}}
<- {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"ses_one_abcdef","update":{"sessionUpdate":"tool_call","toolCallId":"c1","status":"pending","title":"ls","kind":"execute"}}}
<- {"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":{"sessionId":"ses_one_abcdef","options":[]}}
-> {"jsonrpc":"2.0","id":1,"result":{"outcome":{"outcome":"cancelled"}}}
<- {"jsonrpc":"2.0","id":"a","error":{"code":-32603,"message":"no"}}
"#;

#[test]
fn a_turn_is_a_row_a_message_with_joined_chunks_and_named_answers() {
    insta::assert_snapshot!(rows(View::new(None, false), TURN), @r#"
    1 ->        initialize #0  {"protocolVersion":1}
    2 <-        #0 answered (initialize)  {"protocolVersion":1}
    3 -> abcdef session/prompt #a  "look\nhere" [file:///x] [image]
    4 <- abcdef agent_message_chunk ×2  "Let me look."
    6 <- abcdef tool_call c1 pending ls  {"kind":"execute"}
    7 <- abcdef session/request_permission #1  {"options":[]}
    8 -> abcdef #1 answered (session/request_permission)  {"outcome":{"outcome":"cancelled"}}
    9 <- abcdef #a failed (session/prompt)  {"code":-32603,"message":"no"}
    "#);
}

#[test]
fn arrows_are_guessed_where_there_are_none() {
    let plain = TURN.replace("-> ", "").replace("<- ", "");
    assert_eq!(rows(View::new(None, false), &plain), rows(View::new(None, false), TURN));
}

#[test]
fn what_is_wrong_with_a_trace_is_told() {
    let trace = r#"-> {"jsonrpc":"2.0","id":1,"method":"session/list"}
-> not json
<- {"jsonrpc":"2.0","id":7,"result":{}}
<- {"jsonrpc":"2.0","id":1}
-> {"jsonrpc":"2.0","id":2,"method":"session/list"}
-> {"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"/x"}}
"#;
    insta::assert_snapshot!(rows(View::new(None, false), trace), @r#"
    1 ->        session/list #1
    2 ->        no message  not json
    3 <-        #7 answered (no request)  {}
    4 <-        #1 neither result nor error (session/list)  {"jsonrpc":"2.0","id":1}
    5 ->        session/list #2
    6 ->        session/new #2 (the id of line 5 again)  {"cwd":"/x"}
    6 ->        session/new #2 has no answer
    "#);
}

#[test]
fn one_session_can_be_chosen_and_long_messages_are_cut_unless_whole_ones_are_wanted() {
    let text = "x".repeat(500);
    let update = |session: &str| {
        format!(
            r#"<- {{"method":"session/update","params":{{"sessionId":"{session}","update":{{"sessionUpdate":"plan","entries":"{text}"}}}}}}"#
        )
    };
    let trace = [update("ses_1"), update("ses_2")].join("\n");
    let cut = rows(View::new(Some("2".to_owned()), false), &trace);
    assert_eq!(cut.lines().count(), 1);
    let (start, end) = ("    2 <- ses_2  plan  {\"entries\":\"xxx", "xxx … (514 bytes)");
    assert!(cut.starts_with(start) && cut.ends_with(end), "{cut}");
    let whole = rows(View::new(Some("2".to_owned()), true), &trace);
    assert!(whole.contains(&text), "{whole}");
}
