//! A change of the branch that clients are told of.

use windlass_core::bus::Filter;
use windlass_protocol::opencode::{event::EventPayload, service::ServiceNews};

use crate::fixture::{Scene, next_service_event};

#[tokio::test]
async fn a_change_of_the_branch_is_an_event() {
    let scene = Scene::with_commit(&[("a.txt", "one\n")]).await;
    let workspace = scene.workspace().await;
    let events = scene.engine.bus().listen(Filter::All);
    scene.engine.workspaces().watch(&workspace);
    // From here on it is watched.
    scene.engine.workspaces().sync_config(&workspace).await;
    scene.git(&["checkout", "-q", "-b", "other"]).await;
    let event = next_service_event(&events).await;
    let EventPayload::Service(event) = event else { panic!("{event:?}") };
    assert_eq!(event.directory, Some(scene.directory.display().to_string()));
    assert_eq!(event.news, ServiceNews::VcsBranchUpdated { branch: Some("other".to_owned()) });
    scene.git(&["checkout", "-q", "--detach"]).await;
    let event = next_service_event(&events).await;
    let EventPayload::Service(event) = event else { panic!("{event:?}") };
    assert_eq!(event.news, ServiceNews::VcsBranchUpdated { branch: None });
}
