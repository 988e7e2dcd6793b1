//! The ways in which events follow one another in a stream.

use crate::{
    base::{
        event_stream,
        sse::{self, Event},
    },
    provider::{ProviderError, Wire},
};

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
}
