//! Media that are left out, and those that were not at fault.

use windlass_provider::{
    AssistantContent, Media, Prompt, PromptMessage, ProviderError, ToolResult, UserContent,
};

use super::RefusedMedia;

fn refusal(status: u16) -> ProviderError {
    ProviderError::Api { message: format!("refused by {status}"), status: Some(status), body: None }
}

fn media(base64: &'static str) -> Media<'static> {
    Media { mime: "image/png", filename: None, base64 }
}

/// A conversation with one picture before the last answer, and two of one kind behind it.
fn prompt() -> Prompt<'static> {
    let media_of_tool = vec![media("new"), media("new")];
    Prompt {
        messages: vec![
            PromptMessage::User(vec![UserContent::Media(media("old"))]),
            PromptMessage::Assistant(vec![AssistantContent::Text("Seen.".into())]),
            PromptMessage::ToolResults(vec![ToolResult {
                call_id: "c",
                name: "read",
                output: "Image".into(),
                is_error: false,
                media: media_of_tool,
            }]),
        ],
        ..Prompt::default()
    }
}

/// Returns the data of the media that are sent.
fn sent(refused_media: &mut RefusedMedia) -> Vec<String> {
    let mut prompt = prompt();
    refused_media.leave_out(&mut prompt);
    let of_message = |message: &PromptMessage<'_>| -> Vec<String> {
        match message {
            PromptMessage::User(contents) => contents
                .iter()
                .filter_map(|content| match content {
                    UserContent::Media(media) => Some(media.base64.to_owned()),
                    UserContent::Text(_) => None,
                })
                .collect(),
            PromptMessage::ToolResults(results) => {
                results.iter().flat_map(|result| &result.media).map(|media| media.base64.to_owned()).collect()
            }
            PromptMessage::Assistant(_) | PromptMessage::Encoded(_) => Vec::new(),
        }
    };
    prompt.messages.iter().flat_map(of_message).collect()
}

#[test]
fn the_newest_media_are_left_out_for_good_where_that_helps() {
    let mut refused_media = RefusedMedia::default();
    assert_eq!(sent(&mut refused_media), ["old", "new", "new"]);
    assert!(refused_media.suspect(&refusal(400)));
    assert_eq!(sent(&mut refused_media), ["old"]);
    refused_media.confirm();
    assert_eq!(sent(&mut refused_media), ["old"]);
    // Nothing but the older ones is left to suspect.
    assert!(refused_media.suspect(&refusal(400)));
    assert_eq!(sent(&mut refused_media), Vec::<String>::new());
}

#[test]
fn media_that_were_not_at_fault_are_sent_again_and_the_first_error_stays() {
    let mut refused_media = RefusedMedia::default();
    sent(&mut refused_media);
    assert!(refused_media.suspect(&refusal(400)));
    sent(&mut refused_media);
    assert!(!refused_media.suspect(&refusal(422)));
    assert_eq!(refused_media.acquit(refusal(422)), refusal(400));
    assert_eq!(sent(&mut refused_media), ["old", "new", "new"]);
    // So are those of a trial that was cancelled.
    assert!(refused_media.suspect(&refusal(400)));
    refused_media.begin();
    assert_eq!(sent(&mut refused_media), ["old", "new", "new"]);
}

#[test]
fn a_refusal_is_known_by_its_words_too() {
    for (status, words) in [
        (Some(404), "No endpoints found that support image input"),
        (
            Some(500),
            "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj",
        ),
        (None, "Vision is unsupported"),
    ] {
        let mut refused_media = RefusedMedia::default();
        sent(&mut refused_media);
        assert!(refused_media.suspect(&ProviderError::Api { message: words.to_owned(), status, body: None }));
        assert_eq!(sent(&mut refused_media), ["old"], "{words}");
    }
}

#[test]
fn only_a_request_that_is_not_understood_is_asked_without_media() {
    let mut refused_media = RefusedMedia::default();
    sent(&mut refused_media);
    assert!(!refused_media.suspect(&refusal(404)));
    let passing = "no capacity is provisioned to support this revision of the model";
    let passing = ProviderError::Api { message: passing.to_owned(), status: Some(500), body: None };
    assert!(!refused_media.suspect(&passing));
    assert!(!refused_media.suspect(&ProviderError::Auth { message: String::new() }));
    assert_eq!(refused_media.acquit(refusal(404)), refusal(404));
}
