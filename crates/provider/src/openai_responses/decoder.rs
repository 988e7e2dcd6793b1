//! Reads the events of an answer on the responses wire.

use serde::Deserialize;
use serde_json::Value;
use windlass_base::sse;

use crate::{
    Delta, Finish, ProviderError, Usage,
    http::{
        body,
        decode::{Answer, Decode},
        failure,
    },
};

/// A decoder of the events of one answer.
#[derive(Debug, Default)]
pub struct Decoder {
    answer: Answer,
    /// Output items that have begun and not ended.
    items: Vec<Item>,
}

#[derive(Debug)]
struct Item {
    index: Option<u64>,
    kind: Kind,
    /// The block's number; `None` while the item has nothing to show.
    block: Option<u32>,
    /// True once a part of the content has arrived by itself.
    has_content: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Reasoning,
    Call,
    /// A call of a tool that the provider runs itself.
    Other,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    output_index: Option<u64>,
    #[serde(default)]
    summary_index: Option<u64>,
    #[serde(default)]
    delta: Value,
    #[serde(default)]
    arguments: Option<String>,
    #[serde(default)]
    item: OutputItem,
    #[serde(default)]
    response: Value,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct OutputItem {
    #[serde(rename = "type")]
    kind: String,
    id: Option<String>,
    call_id: Option<String>,
    name: Option<String>,
    arguments: Option<String>,
    encrypted_content: Option<String>,
    content: Option<Vec<ItemPart>>,
    summary: Option<Vec<ItemPart>>,
    // The arguments of the provider's own tools.
    action: Option<Value>,
    queries: Option<Value>,
    code: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ItemPart {
    text: Option<String>,
    refusal: Option<String>,
}

impl Decode for Decoder {
    fn push(&mut self, event: &sse::Event, deltas: &mut Vec<Delta>) -> Result<(), ProviderError> {
        let data = event.data.trim();
        if self.answer.is_done || data.is_empty() || data == "[DONE]" {
            return Ok(());
        }
        if event.event.as_deref() == Some("error") {
            return Err(failure::from_event(&body::parse(data)?));
        }
        let event: Event = body::parse(data)?;
        match event.kind.as_str() {
            "response.output_item.added" => self.add(event.output_index, event.item, deltas),
            "response.output_text.delta" | "response.refusal.delta" => {
                self.append(event.output_index, Kind::Text, body::text_of(event.delta), deltas);
            }
            "response.reasoning_summary_part.added" if event.summary_index.is_some_and(|index| index > 0) => {
                self.append(event.output_index, Kind::Reasoning, "\n\n".to_owned(), deltas);
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.append(event.output_index, Kind::Reasoning, body::text_of(event.delta), deltas);
            }
            "response.function_call_arguments.delta" => {
                self.extend_call(event.output_index, body::text_of(event.delta), deltas);
            }
            "response.function_call_arguments.done" => {
                let at = self.find(event.output_index, Kind::Call);
                if at.is_some_and(|at| !self.items[at].has_content) {
                    self.extend_call(event.output_index, event.arguments.unwrap_or_default(), deltas);
                }
            }
            "response.output_item.done" => self.end_item(event.output_index, event.item, deltas),
            "response.completed" | "response.incomplete" => {
                self.count(&event.response["usage"], deltas);
                self.answer.finish = Some(match event.response["incomplete_details"]["reason"].as_str() {
                    None => Finish::Stop,
                    Some("max_output_tokens" | "max_tokens") => Finish::Length,
                    Some("content_filter") => Finish::ContentFilter,
                    Some(_) => Finish::Unknown,
                });
                self.end(deltas);
            }
            "response.failed" | "response.cancelled" => return Err(failure::from_event(&event.response)),
            "error" => return Err(failure::from_event(&body::parse(data)?)),
            "" if failure::holds_error(&body::parse(data)?) => {
                return Err(failure::from_event(&body::parse(data)?));
            }
            // Repetitions of the deltas, progress of the provider's own tools, and later additions.
            _ => {}
        }
        Ok(())
    }

    fn answer(&mut self) -> &mut Answer {
        &mut self.answer
    }

    fn end_blocks(&mut self, deltas: &mut Vec<Delta>) {
        while !self.items.is_empty() {
            self.close(0, deltas);
        }
    }
}

impl Decoder {
    fn add(&mut self, index: Option<u64>, item: OutputItem, deltas: &mut Vec<Delta>) {
        let kind = kind_of(&item);
        let mut added = Item { index, kind, block: None, has_content: false };
        if kind == Kind::Call {
            let block = self.answer.next_block();
            added.block = Some(block);
            self.answer.has_calls = true;
            let id = item.call_id.or(item.id).filter(|id| !id.is_empty());
            deltas.push(Delta::ToolCallStart {
                block,
                call_id: id.unwrap_or_else(|| format!("call_{block}")),
                name: item.name.unwrap_or_default(),
            });
        }
        self.items.push(added);
    }

    /// Returns the open item of an event. Item ids are of no use: some gateways make a new one for each event.
    fn find(&self, index: Option<u64>, kind: Kind) -> Option<usize> {
        self.items.iter().rposition(|item| item.kind == kind && (index.is_none() || item.index == index))
    }

    fn append(&mut self, index: Option<u64>, kind: Kind, text: String, deltas: &mut Vec<Delta>) {
        if text.is_empty() {
            return;
        }
        let at = self.find(index, kind).unwrap_or_else(|| {
            self.items.push(Item { index, kind, block: None, has_content: false });
            self.items.len() - 1
        });
        let block = self.open(at, deltas);
        self.items[at].has_content = true;
        deltas.push(if kind == Kind::Reasoning {
            Delta::Reasoning { block, text }
        } else {
            Delta::Text { block, text }
        });
    }

    /// Returns the block of a text or thought, which begins with its first content.
    fn open(&mut self, at: usize, deltas: &mut Vec<Delta>) -> u32 {
        if let Some(block) = self.items[at].block {
            return block;
        }
        let block = self.answer.next_block();
        self.items[at].block = Some(block);
        deltas.push(if self.items[at].kind == Kind::Reasoning {
            Delta::ReasoningStart { block }
        } else {
            Delta::TextStart { block }
        });
        block
    }

    fn extend_call(&mut self, index: Option<u64>, json: String, deltas: &mut Vec<Delta>) {
        let Some(item) = self.find(index, Kind::Call).map(|at| &mut self.items[at]) else { return };
        if let Some(block) = item.block
            && !json.is_empty()
        {
            item.has_content = true;
            deltas.push(Delta::ToolCallInput { block, json });
        }
    }

    fn end_item(&mut self, index: Option<u64>, done: OutputItem, deltas: &mut Vec<Delta>) {
        let kind = kind_of(&done);
        if kind == Kind::Other {
            // Without storage at the provider it cannot go back.
            let name = done.name.as_deref().unwrap_or(done.kind.trim_end_matches("_call"));
            let shown = match done.action.as_ref().or(done.queries.as_ref()).or(done.code.as_ref()) {
                Some(asked) => format!("{name}: {asked}"),
                None => name.to_owned(),
            };
            deltas.extend(body::provided(self.answer.next_block(), shown, None));
            return;
        }
        let at = self.find(index, kind);
        if at.is_none() && kind == Kind::Call {
            let arguments = done.arguments.clone();
            self.add(index, OutputItem { arguments: None, ..done }, deltas);
            self.extend_call(index, arguments.unwrap_or_default(), deltas);
            self.close(self.items.len() - 1, deltas);
            return;
        }
        let is_streamed = at.is_some_and(|at| self.items[at].has_content);
        let whole = match kind {
            Kind::Call => done.arguments.unwrap_or_default(),
            Kind::Reasoning => join(done.summary).or(join(done.content)).unwrap_or_default(),
            Kind::Text | Kind::Other => join(done.content).unwrap_or_default(),
        };
        if !is_streamed && kind == Kind::Call {
            self.extend_call(index, whole, deltas);
        } else if !is_streamed {
            self.append(index, kind, whole, deltas);
        }
        let signature = done.encrypted_content.filter(|content| !content.is_empty());
        if let Some(signature) = signature.filter(|_| kind == Kind::Reasoning) {
            let at = self.find(index, kind).unwrap_or_else(|| {
                self.items.push(Item { index, kind, block: None, has_content: false });
                self.items.len() - 1
            });
            let block = self.open(at, deltas);
            let id = done.id.filter(|id| !id.is_empty());
            let signature = id.map_or(signature.clone(), |id| item_signature(&id, &signature));
            deltas.push(Delta::Signature { block, signature });
        }
        if let Some(at) = self.find(index, kind) {
            self.close(at, deltas);
        }
    }

    fn close(&mut self, at: usize, deltas: &mut Vec<Delta>) {
        let item = self.items.remove(at);
        let Some(block) = item.block else { return };
        if item.kind == Kind::Call && !item.has_content {
            deltas.push(Delta::ToolCallInput { block, json: "{}".to_owned() });
        }
        deltas.push(Delta::BlockEnd { block });
    }

    fn count(&mut self, usage: &Value, deltas: &mut Vec<Delta>) {
        if !usage.is_object() {
            return;
        }
        let cache_read = body::count(usage, "/input_tokens_details/cached_tokens");
        let cache_write = body::count(usage, "/input_tokens_details/cache_write_tokens");
        let reasoning = body::count(usage, "/output_tokens_details/reasoning_tokens");
        let output = body::count(usage, "/output_tokens");
        let usage = Usage {
            input: body::count(usage, "/input_tokens").saturating_sub(cache_read + cache_write),
            // A server with a reasoning count above its output count counts the two separately.
            output: output.checked_sub(reasoning).unwrap_or(output),
            reasoning,
            cache_read,
            cache_write,
        };
        self.answer.count(usage, deltas);
    }
}

fn kind_of(item: &OutputItem) -> Kind {
    match item.kind.as_str() {
        "message" => Kind::Text,
        "reasoning" => Kind::Reasoning,
        "function_call" => Kind::Call,
        _ => Kind::Other,
    }
}

fn join(parts: Option<Vec<ItemPart>>) -> Option<String> {
    let texts: Vec<String> = parts?
        .into_iter()
        .filter_map(|part| part.text.or(part.refusal))
        .filter(|text| !text.is_empty())
        .collect();
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}

/// The prefix of a signature in which the item's id stands before the encrypted content.
const ITEM: &str = "item:";

/// Joins a thought's id and its encrypted content to a signature; some providers want both back.
fn item_signature(id: &str, encrypted_content: &str) -> String {
    format!("{ITEM}{id}:{encrypted_content}")
}

/// Splits a signature; older ones have no id.
pub(super) fn split_signature(signature: &str) -> (Option<&str>, &str) {
    match signature.strip_prefix(ITEM).and_then(|rest| rest.split_once(':')) {
        Some((id, encrypted_content)) => (Some(id), encrypted_content),
        None => (None, signature),
    }
}
