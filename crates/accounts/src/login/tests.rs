//! Tests of logins against a scripted provider, with a test for each fault.

mod faults;
mod gateway;
mod github;
mod openid;
mod settings;
mod site;
