//! Endless lists of resources, and malformed answers.

use super::*;
use crate::mcp::ResourceList;

async fn list(quirk: &str, list: ResourceList) -> Result<(usize, bool), CallError> {
    let servers = settled(vec![scripted("s", &["resources", quirk])]).await;
    let listed = servers.lease().resources("s", list, &CancellationToken::new()).await;
    listed.map(|(entries, is_cut)| (entries.len(), is_cut))
}

#[tokio::test]
async fn an_endless_list_of_resources_is_cut() {
    assert_eq!(list("endless", ResourceList::Resources).await, Ok((256, true)));
    assert_eq!(list("many", ResourceList::Resources).await, Ok((2048, true)));
    // Four entries of a megabyte; the next one would exceed the limit.
    assert_eq!(list("wide", ResourceList::Resources).await, Ok((4, true)));
    // A cursor that leads to itself ends the list.
    assert_eq!(list("standing", ResourceList::Resources).await, Ok((2, false)));
}

#[tokio::test]
async fn a_malformed_list_or_resource_is_an_error() {
    let failed = |method: &str| {
        CallError::Failed(format!("MCP server s could not run {method}: its answer does not fit the request"))
    };
    let templates = list("many", ResourceList::Templates).await;
    assert_eq!(templates, Err(failed("resources/templates/list")));
    let servers = settled(vec![scripted("s", &["resources"]), scripted("plain", &[])]).await;
    let cancel = CancellationToken::new();
    let lease = servers.lease();
    assert_eq!(lease.with_resources(), ["s"]);
    assert_eq!(lease.read_resource("s", "a://0", &cancel).await, Err(failed("resources/read")));
    let gone = CallError::Failed("MCP server plain is gone".to_owned());
    assert_eq!(lease.read_resource("plain", "a://0", &cancel).await, Err(gone));
}
