//! The words of a test's failure, kept until its agent has been shown.

use std::{cell::RefCell, panic, sync::Once};

thread_local! {
    static KEPT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps the words of every failure from now on, besides printing them.
pub fn keep() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            KEPT.with_borrow_mut(|kept| *kept = info.to_string());
            print(info);
        }));
    });
}

/// Returns the words of this thread's last failure.
pub fn kept() -> String {
    KEPT.with_borrow(Clone::clone)
}
