//! The model that was used last, from a file in every state.

use std::fs;

use windlass_core::config::{Environment, paths::Paths};

use super::{last_used_model, remember_model};

#[test]
fn a_broken_file_is_named_and_the_next_choice_mends_it() {
    let home = tempfile::tempdir().unwrap();
    let environment =
        Environment { trusts_projects: true, home: home.path().to_owned(), ..Environment::default() };
    let paths = Paths::new(&environment);
    assert_eq!(last_used_model(&paths), Ok(None));
    fs::create_dir_all(&paths.data).unwrap();
    fs::write(paths.state(), "oops").unwrap();
    let warning = last_used_model(&paths).unwrap_err().to_string();
    assert!(warning.starts_with(&format!("{}: cannot be read: ", paths.state().display())), "{warning}");
    let model = windlass_protocol::opencode::model_ref::ModelRef::parse("a/b").unwrap();
    remember_model(&paths, &model).unwrap();
    assert_eq!(last_used_model(&paths), Ok(Some(model)));
}
