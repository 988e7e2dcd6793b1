//! The shape of a service's event.

use super::super::event::{Event, EventPayload};
use super::*;

#[test]
fn a_service_event_has_the_shape_of_every_event() {
    let event = Event {
        id: serde_json::from_value("evt_1".into()).unwrap(),
        payload: EventPayload::Service(ServiceEvent {
            directory: Some("/work".to_owned()),
            news: ServiceNews::TuiPromptAppend { text: "hi".to_owned() },
        }),
    };
    let json = serde_json::to_value(&event).unwrap();
    let wanted = serde_json::json!({
        "id": "evt_1", "type": "tui.prompt.append", "properties": { "text": "hi" }
    });
    assert_eq!(json, wanted);
}
