//! The few system calls of the launcher that no safe wrapper offers.
//!
//! All of `unsafe` in the sandbox is here.
#![expect(unsafe_code, reason = "raw system calls; each says why it is sound")]

use std::{
    ffi::CString,
    fs::{self, File},
    io,
    os::{
        fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, FdFlag, fcntl},
    libc::{self, c_long, c_uint, c_ulong},
    sched::{self, CloneFlags},
    sys::signal::{SigHandler, Signal, signal},
    unistd::{Pid, dup},
};
use seccompiler::sock_filter;

use crate::process::{CHANNEL, DOOR, REPORT};

/// Stack of the first process of the namespaces; only touched pages count.
const STACK_BYTES: usize = 1 << 20;

/// Runs `child` in a process of its own, within new namespaces where the flags say so.
///
/// Fails with `EBUSY` in a process of several threads.
pub(super) fn clone(flags: CloneFlags, child: Box<dyn FnMut() -> isize + '_>) -> nix::Result<Pid> {
    let threads = fs::read_dir("/proc/self/task").map_err(|_| Errno::EBUSY)?.count();
    if threads != 1 || flags.contains(CloneFlags::CLONE_VM) {
        return Err(Errno::EBUSY);
    }
    let mut stack = vec![0; STACK_BYTES];
    // SAFETY: without CLONE_VM the child works on a copy of our memory, stack included, and no other thread of ours
    // holds a lock that would be copied in a held state.
    unsafe { sched::clone(child, &mut stack, flags, Some(libc::SIGCHLD)) }
}

/// Makes a detached copy of the mounts at a path and below it.
pub(super) fn open_tree(path: &Path) -> io::Result<OwnedFd> {
    let path = c_path(path)?;
    let flags = libc::OPEN_TREE_CLONE | libc::OPEN_TREE_CLOEXEC | libc::AT_RECURSIVE as c_uint;
    let flags = flags | libc::AT_SYMLINK_NOFOLLOW as c_uint;
    // SAFETY: the path is a string that ends with NUL and lives over the call.
    let fd = check(unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path.as_ptr(), flags) })?;
    let fd = RawFd::try_from(fd).map_err(io::Error::other)?;
    // SAFETY: the kernel has just given us this descriptor, which nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Attaches a detached copy.
pub(super) fn attach(tree: &OwnedFd, path: &Path) -> io::Result<()> {
    let path = c_path(path)?;
    let (from, flags) = (tree.as_raw_fd(), libc::MOVE_MOUNT_F_EMPTY_PATH);
    // SAFETY: both paths are strings that end with NUL and live over the call.
    let result = unsafe {
        libc::syscall(libc::SYS_move_mount, from, c"".as_ptr(), libc::AT_FDCWD, path.as_ptr(), flags)
    };
    check(result).map(drop)
}

/// Makes a detached copy read-only, with all below it.
pub(super) fn make_read_only(tree: &OwnedFd) -> io::Result<()> {
    let flags = libc::AT_EMPTY_PATH | libc::AT_RECURSIVE;
    set_read_only(tree.as_raw_fd(), Path::new(""), flags)
}

/// Makes the mount at a path read-only; with all below it when that is asked for.
pub(super) fn make_path_read_only(path: &Path, is_recursive: bool) -> io::Result<()> {
    set_read_only(libc::AT_FDCWD, path, if is_recursive { libc::AT_RECURSIVE } else { 0 })
}

fn set_read_only(directory: RawFd, path: &Path, flags: i32) -> io::Result<()> {
    let path = c_path(path)?;
    let attr =
        libc::mount_attr { attr_set: libc::MOUNT_ATTR_RDONLY, attr_clr: 0, propagation: 0, userns_fd: 0 };
    let size = size_of::<libc::mount_attr>();
    // SAFETY: path and structure live over the call, and the size is the structure's.
    let result = unsafe {
        libc::syscall(libc::SYS_mount_setattr, directory, path.as_ptr(), flags, &raw const attr, size)
    };
    check(result).map(drop)
}

/// Has every descriptor but the three standard ones closed when a program is executed.
pub(super) fn close_others_on_exec() -> io::Result<()> {
    let (first, last): (c_uint, c_uint) = (3, c_uint::MAX);
    // SAFETY: the call takes numbers only; descriptors stay open in this program.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, last, libc::CLOSE_RANGE_CLOEXEC) }).map(drop)
}

/// Returns a copy of the descriptor of the input.
pub(super) fn input() -> io::Result<File> {
    // SAFETY: every process here has an input; one that was closed makes the call fail, nothing else.
    let input = unsafe { BorrowedFd::borrow_raw(0) };
    Ok(File::from(dup(input)?))
}

/// Gives up all capabilities but those in the set, for this process and for every program it executes.
pub(super) fn keep_capabilities(kept: u64) -> io::Result<()> {
    for capability in (0..u64::BITS).filter(|number| kept & (1 << number) == 0) {
        // SAFETY: the call takes numbers only. It fails behind the last capability that the kernel knows.
        if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, c_ulong::from(capability), 0, 0, 0) } != 0 {
            break;
        }
    }
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Data {
        effective: u32,
        permitted: u32,
        inheritable: u32,
    }
    const VERSION_3: u32 = 0x2008_0522;
    let header = Header { version: VERSION_3, pid: 0 };
    let mut data = [Data { effective: 0, permitted: 0, inheritable: 0 }; 2];
    // SAFETY: both structures are laid out as the kernel expects for this version and live over the call.
    check(unsafe { libc::syscall(libc::SYS_capget, &raw const header, data.as_mut_ptr()) })?;
    // More than there is cannot be kept: root of a container may have none.
    let kept = [kept as u32 & data[0].permitted, (kept >> 32) as u32 & data[1].permitted];
    let data = kept.map(|bits| Data { effective: bits, permitted: bits, inheritable: 0 });
    // SAFETY: both structures are laid out as the kernel expects for this version and live over the call.
    check(unsafe { libc::syscall(libc::SYS_capset, &raw const header, data.as_ptr()) }).map(drop)
}

/// Restricts this process by a Landlock ruleset. It must have renounced new privileges.
pub(super) fn restrict_files(ruleset: &OwnedFd) -> io::Result<()> {
    // SAFETY: the call takes numbers only.
    check(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) }).map(drop)
}

/// Installs a seccomp filter in this thread. It must have renounced new privileges.
pub(super) fn filter_calls(program: &[sock_filter]) -> io::Result<()> {
    let len = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let program = libc::sock_fprog { len, filter: program.as_ptr().cast_mut().cast() };
    let mode = libc::SECCOMP_SET_MODE_FILTER;
    // SAFETY: both structures are laid out as the kernel reads them, which only reads, and live over the call.
    check(unsafe { libc::syscall(libc::SYS_seccomp, mode, 0, &raw const program) }).map(drop)
}

/// Closes standard output and error, so that their readers see the end.
pub(super) fn close_output() {
    for number in [libc::STDOUT_FILENO, libc::STDERR_FILENO] {
        // SAFETY: nothing here owns these descriptors, and nothing is written to them behind this call.
        unsafe { libc::close(number) };
    }
}

/// Returns the descriptor to which the exit status is reported, which was handed down under its number.
///
/// To be called once, by a launcher that was told of it.
pub(super) fn report() -> File {
    // SAFETY: the daemon handed it down to us, and nothing else here owns it.
    File::from(unsafe { OwnedFd::from_raw_fd(REPORT) })
}

/// Returns the descriptor of the command's channel, which was handed down under its number and stays open when a program
/// is executed.
///
/// To be called once, by a launcher that was told of it.
pub(super) fn channel() -> io::Result<OwnedFd> {
    // SAFETY: the daemon handed it down to us, and nothing else here owns it.
    let channel = unsafe { OwnedFd::from_raw_fd(CHANNEL) };
    fcntl(&channel, FcntlArg::F_SETFD(FdFlag::empty()))?;
    Ok(channel)
}

/// Returns the descriptor that takes the listener of the command's network, which was handed down under its number.
///
/// To be called once, by a launcher that was told of it.
pub(super) fn door() -> OwnedFd {
    // SAFETY: the daemon handed it down to us, and nothing else here owns it.
    unsafe { OwnedFd::from_raw_fd(DOOR) }
}

/// Switches the loopback interface of a new network namespace on.
pub(super) fn raise_loopback() -> io::Result<()> {
    // SAFETY: the call takes numbers only.
    let socket = check(c_long::from(unsafe {
        libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0)
    }))?;
    // SAFETY: the kernel has just given us this descriptor, which nothing else owns.
    let socket = unsafe { OwnedFd::from_raw_fd(RawFd::try_from(socket).map_err(io::Error::other)?) };
    // SAFETY: all zeros is a valid value of this plain structure.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as i16;
    // SAFETY: the structure is the one that this request reads, and lives over the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    check(c_long::from(result)).map(drop)
}

/// Lets a signal have its default effect.
pub(super) fn reset_signal(number: Signal) {
    // SAFETY: the default action runs no code of ours.
    let _ = unsafe { signal(number, SigHandler::SigDfl) };
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(io::Error::from)
}

fn check(result: c_long) -> io::Result<c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
