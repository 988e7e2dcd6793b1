//! Seccomp: system calls by which a command could get around the rest of the boundary.

use std::collections::BTreeMap;

use nix::libc;
use seccompiler::{
    BackendError, BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter, sock_filter,
};

use super::boundary::Network;

/// Refused with `EPERM`: mounts and namespaces, other processes' memory, the kernel's keys, programs and settings.
const REFUSED: &[libc::c_long] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    libc::SYS_open_by_handle_at,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_fanotify_init,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
];

/// Calls that seem not to exist, so that programs use older ones: their arguments are behind a pointer, which a filter
/// cannot read.
const UNKNOWN: &[libc::c_long] =
    &[libc::SYS_clone3, libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];

const NAMESPACES: [libc::c_int; 8] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    // Not a flag of `clone`, where the bits are the signal's; no signal has this number.
    0x80,
];

/// Installs the filter in this thread and in all it starts.
pub(super) fn apply(network: Network) -> Result<(), Error> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let action = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    let filter = SeccompFilter::new(refused(network)?, SeccompAction::Allow, action, arch)?;
    let mut program = BpfProgram::try_from(filter)?;
    // A second filter would cost each command as much again.
    let beginning = unknown(arch);
    program.splice(0..0, beginning);
    apply_filter(&program)
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn refused(network: Network) -> Result<Rules, BackendError> {
    use SeccompCmpOp::{Eq, MaskedEq, Ne};
    let mut rules: Rules = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    let flags = NAMESPACES.map(|flag| flag.cast_unsigned().into());
    for call in [libc::SYS_clone, libc::SYS_unshare] {
        let of_flag = |flag| rule(&[(0, MaskedEq(flag), flag)]);
        rules.insert(call, flags.into_iter().map(of_flag).collect::<Result<_, _>>()?);
    }
    // Typing into a terminal, as its user.
    let requests = [libc::TIOCSTI, libc::TIOCLINUX];
    let requests = requests.into_iter().map(|request| rule(&[(1, Eq, request)])).collect::<Result<_, _>>()?;
    rules.insert(libc::SYS_ioctl, requests);
    let number = |it: libc::c_int| u64::from(it.cast_unsigned());
    let mut families = vec![libc::AF_UNIX, libc::AF_NETLINK];
    if network != Network::Denied {
        families.extend([libc::AF_INET, libc::AF_INET6]);
    }
    let others: Vec<_> = families.iter().map(|family| (0, Ne, number(*family))).collect();
    let raw = |family| {
        // The kind of a socket, without the flags that may be with it.
        let is_raw = (1, MaskedEq(0xf), number(libc::SOCK_RAW));
        rule(&[(0, Eq, number(family)), is_raw])
    };
    rules.insert(libc::SYS_socket, vec![rule(&others)?, raw(libc::AF_INET)?, raw(libc::AF_INET6)?]);
    Ok(rules)
}

/// Makes a rule of conditions that must all hold: index of the argument, comparison, value.
fn rule(conditions: &[(u8, SeccompCmpOp, u64)]) -> Result<SeccompRule, BackendError> {
    let conditions = conditions.iter().map(|(index, operation, value)| {
        SeccompCondition::new(*index, SeccompCmpArgLen::Dword, operation.clone(), *value)
    });
    SeccompRule::new(conditions.collect::<Result<_, _>>()?)
}

/// Returns the instructions before all others: they refuse the unknown calls, and every call by the numbers of the x32
/// interface, under which all calls exist a second time.
///
/// They do not look at the architecture. A number that means another call elsewhere is refused for nothing, and the
/// instructions behind them end a process of another architecture.
fn unknown(arch: TargetArch) -> BpfProgram {
    const X32: u32 = 0x4000_0000;
    let instruction = |code: u32, jump_true, jump_false, k| sock_filter {
        code: code as u16,
        jt: jump_true,
        jf: jump_false,
        k,
    };
    let refusal = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned();
    let refuse = instruction(libc::BPF_RET | libc::BPF_K, 0, 0, refusal);
    let unless = |comparison, k| instruction(libc::BPF_JMP | comparison | libc::BPF_K, 0, 1, k);
    // The number of the call is the first word of what a filter sees.
    let mut program = vec![instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0)];
    for call in UNKNOWN {
        // Numbers of calls are small.
        program.extend([unless(libc::BPF_JEQ, *call as u32), refuse.clone()]);
    }
    if arch == TargetArch::x86_64 {
        program.extend([unless(libc::BPF_JGE, X32), refuse]);
    }
    program
}
