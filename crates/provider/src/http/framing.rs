//! The ways in which events follow one another in a stream.

use windlass_base::sse::{self, Event};

use crate::{ProviderError, Wire, event_stream};

/// A stream's framing, with the received part of its next event.
pub enum Framing {
    ServerSentEvents(sse::Parser),
    /// AWS's own.
    EventStream(event_stream::Parser),
}

impl Framing {
    pub fn of(wire: Wire) -> Framing {
        match wire {
            Wire::Bedrock => Framing::EventStream(event_stream::Parser::default()),
            Wire::OpenAiChat | Wire::OpenAiResponses | Wire::Anthropic | Wire::Google | Wire::Demo => {
                Framing::ServerSentEvents(sse::Parser::default())
            }
        }
    }

    /// Appends the events that `bytes` complete to `events`, also those before an error.
    pub fn push(&mut self, bytes: &[u8], events: &mut Vec<Event>) -> Result<(), ProviderError> {
        let message = match self {
            Framing::ServerSentEvents(parser) => match parser.push(bytes, events) {
                Ok(()) => return Ok(()),
                Err(error) => error.to_string(),
            },
            Framing::EventStream(parser) => match parser.push(bytes, events) {
                Ok(()) => return Ok(()),
                Err(error) => error.to_string(),
            },
        };
        Err(ProviderError::Api { message, status: None, body: None })
    }
    /// Appends the last event of a body that has ended, where nothing but the line ends behind it is missing. A piece of
    /// an event is none.
    pub fn finish(&mut self, events: &mut Vec<Event>) {
        let Framing::ServerSentEvents(parser) = self else { return };
        let n_before = events.len();
        // One that is too large is as good as cut off.
        let _ = parser.finish(events);
        let is_whole = |event: &Event| {
            event.data == "[DONE]" || serde_json::from_str::<serde::de::IgnoredAny>(&event.data).is_ok()
        };
        if !events[n_before..].iter().all(is_whole) {
            events.truncate(n_before);
        }
    }
}
