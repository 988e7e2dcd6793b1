//! Landlock, seccomp and capabilities, made ready so that a process restricts itself by system calls alone.

use std::{
    io,
    os::fd::OwnedFd,
    sync::{Arc, Mutex},
};

use nix::{sys::prctl, unistd::Uid};
use seccompiler::BpfProgram;

use super::{
    boundary::{Boundary, Level},
    identity::{Identity, of_ancestors, of_paths},
    landlock, seccomp, sys,
};
use crate::{lock::lock, process::BeforeProgram};

/// Capabilities that root keeps, to own and write files of all users and to run as one of them. None of them is about
/// the machine.
const ROOT_CAPABILITIES: u64 = {
    const CHOWN: u32 = 0;
    const DAC_OVERRIDE: u32 = 1;
    const FOWNER: u32 = 3;
    const FSETID: u32 = 4;
    const KILL: u32 = 5;
    const SETGID: u32 = 6;
    const SETUID: u32 = 7;
    const NET_BIND_SERVICE: u32 = 10;
    1 << CHOWN
        | 1 << DAC_OVERRIDE
        | 1 << FOWNER
        | 1 << FSETID
        | 1 << KILL
        | 1 << SETGID
        | 1 << SETUID
        | 1 << NET_BIND_SERVICE
};

/// The one that was made last.
static LAST: Mutex<Option<(Key, Arc<Restriction>)>> = Mutex::new(None);

/// The properties on which a restriction depends.
#[derive(PartialEq, Eq)]
struct Key {
    boundary: Boundary,
    files: Vec<Option<Identity>>,
}

impl Key {
    fn new(boundary: &Boundary) -> Self {
        let Boundary { writable, hidden, shown, sockets, .. } = boundary;
        let named = [writable, hidden, shown, sockets].into_iter().flatten();
        // Landlock hides a path by giving everything beside it, and beside the directories above it.
        let files = of_paths(named).chain(of_ancestors(hidden)).collect();
        Self { boundary: boundary.clone(), files }
    }
}

/// Limits that a process puts on itself and cannot lift.
pub(super) struct Restriction {
    /// None where the kernel has no Landlock, which the full level can do without.
    ruleset: Option<OwnedFd>,
    filter: BpfProgram,
    capabilities: u64,
}

impl Restriction {
    pub fn new(boundary: &Boundary) -> io::Result<Self> {
        let ruleset = landlock::ruleset(boundary).map_err(io::Error::other)?;
        if ruleset.is_none() && boundary.level == Level::Landlock {
            return Err(io::Error::other("the kernel has no Landlock"));
        }
        let filter = seccomp::program(boundary.network).map_err(io::Error::other)?;
        let capabilities = if Uid::effective().is_root() { ROOT_CAPABILITIES } else { 0 };
        Ok(Self { ruleset, filter, capabilities })
    }

    /// Returns the one of an earlier command if everything that the boundary names is still the same file.
    ///
    /// Fails with the reason that no boundary could be drawn.
    pub fn of(boundary: &Boundary) -> io::Result<Arc<Self>> {
        let key = Key::new(boundary);
        if let Some((last, restriction)) = &*lock(&LAST)
            && *last == key
        {
            return Ok(restriction.clone());
        }
        let failed = |error| io::Error::other(format!("the sandbox could not be set up: {error}"));
        let restriction = Arc::new(Self::new(boundary).map_err(failed)?);
        *lock(&LAST) = Some((key, restriction.clone()));
        Ok(restriction)
    }

    /// Restricts this process, and every one that it starts.
    pub fn apply(&self) -> io::Result<()> {
        // The variables of other processes are read with a capability that Landlock knows nothing of.
        sys::keep_capabilities(self.capabilities)?;
        prctl::set_no_new_privs()?;
        if let Some(ruleset) = &self.ruleset {
            sys::restrict_files(ruleset)?;
        }
        sys::filter_calls(&self.filter)
    }
}

#[expect(unsafe_code, reason = "the trait demands that nothing but system calls is made")]
// SAFETY: `apply` makes system calls over values that are there already; errors hold a number.
unsafe impl BeforeProgram for Restriction {
    fn apply(&self) -> io::Result<()> {
        Restriction::apply(self)
    }
}
