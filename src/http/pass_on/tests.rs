//! The path of a request at another node.

use super::*;

#[test]
fn a_directory_and_a_password_stay_here() {
    let uri = "/session/ses_1/message?directory=%2Fhome&limit=3&auth_token=x";
    let (parts, _) = Request::builder().uri(uri).body(Body::empty()).unwrap().into_parts();
    assert_eq!(path_there(&parts), "/session/ses_1/message?limit=3");
}
