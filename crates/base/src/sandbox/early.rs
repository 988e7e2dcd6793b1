//! A probe in a copy of a process that has just started, which saves the start of a program.

#[cfg(not(target_os = "linux"))]
pub(super) use elsewhere::Early;
#[cfg(target_os = "linux")]
pub(super) use linux::Early;

#[cfg(target_os = "linux")]
mod linux {
    use std::io::{self, PipeReader, Read};

    use nix::{
        sched::CloneFlags,
        sys::{
            prctl,
            wait::{WaitStatus, waitpid},
        },
        unistd::{Pid, dup2_stderr},
    };

    use crate::sandbox::{
        launch,
        launcher::{FOUND_NONE, MAX_REASON},
        sys,
    };

    /// A running probe.
    #[derive(Debug)]
    pub struct Early {
        process: Pid,
        said: PipeReader,
    }

    impl Early {
        /// Starts one. Fails in a process of several threads.
        pub fn begin() -> io::Result<Self> {
            let (said, stderr) = io::pipe()?;
            let child = || {
                // A process that hides its memory may not name the users of its namespaces.
                let is_ready = prctl::set_dumpable(true).and_then(|()| dup2_stderr(&stderr));
                isize::from(if is_ready.is_ok() { launch::probe() } else { FOUND_NONE })
            };
            let process = sys::clone(CloneFlags::empty(), Box::new(child))?;
            Ok(Self { process, said })
        }

        /// Returns its exit status and complaints.
        pub async fn end(self) -> io::Result<(i32, String)> {
            let wait = move || {
                let mut said = String::new();
                self.said.take(MAX_REASON).read_to_string(&mut said)?;
                match waitpid(self.process, None)? {
                    WaitStatus::Exited(_, status) => Ok((status, said)),
                    _ => Ok((i32::from(FOUND_NONE), said)),
                }
            };
            tokio::task::spawn_blocking(wait).await.map_err(io::Error::other)?
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use std::{convert::Infallible, io};

    /// There are no probes here.
    #[derive(Debug)]
    pub struct Early(Infallible);

    impl Early {
        pub fn begin() -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub async fn end(self) -> io::Result<(i32, String)> {
            match self.0 {}
        }
    }
}
