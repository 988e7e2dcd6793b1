//! Seccomp: system calls by which a command could get around the rest of the boundary.

use std::collections::BTreeMap;

use nix::libc;
use seccompiler::{
    BackendError, BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, sock_filter,
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

/// Makes the filter: a search for the call's number, and behind it the rules that look at arguments.
///
/// The kernel walks through a filter for every call that exists when it is installed, which a search makes ten times
/// cheaper than a list.
pub(super) fn program(network: Network) -> Result<BpfProgram, Error> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let refusal = libc::EPERM.cast_unsigned();
    let rules = conditional(network)?;
    let refused = REFUSED.iter().map(|call| (*call, Answer::Error(refusal)));
    let unknown = UNKNOWN.iter().map(|call| (*call, Answer::Error(libc::ENOSYS.cast_unsigned())));
    let conditional = rules.keys().map(|call| (*call, Answer::Rules));
    let mut answers: Vec<_> = refused.chain(unknown).chain(conditional).collect();
    answers.sort_by_key(|(call, _)| *call);
    let mut program = beginning(arch);
    program.extend(search(&answers));
    let end = program.len();
    for (index, instruction) in program.iter_mut().enumerate().filter(|(_, it)| it.code == JUMP) {
        instruction.k = (end - index - 1) as u32;
    }
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(refusal), arch)?;
    program.extend(BpfProgram::try_from(filter)?);
    Ok(program)
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Returns the calls that are refused with certain arguments.
fn conditional(network: Network) -> Result<Rules, BackendError> {
    use SeccompCmpOp::{Eq, MaskedEq, Ne};
    let mut rules = Rules::new();
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

/// The answer to a call.
#[derive(Clone, Copy)]
enum Answer {
    Error(u32),
    /// Depends on its arguments.
    Rules,
}

/// A jump, which leads to the rules behind the search.
const JUMP: u16 = (libc::BPF_JMP | libc::BPF_JA) as u16;

fn instruction(code: u32, jump_true: u8, jump_false: u8, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: jump_true, jf: jump_false, k }
}

fn answer_with(k: u32) -> sock_filter {
    instruction(libc::BPF_RET | libc::BPF_K, 0, 0, k)
}

fn fail_with(error: u32) -> sock_filter {
    answer_with(libc::SECCOMP_RET_ERRNO | error)
}

/// Returns the instructions before all others: they end a process of another architecture, because its numbers mean
/// other calls, and refuse the numbers of the x32 interface, under which all calls exist a second time. The number is
/// loaded behind them.
fn beginning(arch: TargetArch) -> BpfProgram {
    const X32: u32 = 0x4000_0000;
    let load = |offset| instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, offset);
    let jump = |comparison, jump_true, jump_false, k| {
        instruction(libc::BPF_JMP | comparison | libc::BPF_K, jump_true, jump_false, k)
    };
    let machine = match arch {
        TargetArch::x86_64 => libc::EM_X86_64,
        TargetArch::aarch64 => libc::EM_AARCH64,
        TargetArch::riscv64 => libc::EM_RISCV,
    };
    // 64 bits, little-endian.
    let machine = u32::from(machine) | 0x8000_0000 | 0x4000_0000;
    // The first words of a filter's input are the number of the call and the architecture.
    let mut program = vec![
        load(4),
        jump(libc::BPF_JEQ, 1, 0, machine),
        answer_with(libc::SECCOMP_RET_KILL_PROCESS),
        load(0),
    ];
    if arch == TargetArch::x86_64 {
        program.extend([jump(libc::BPF_JGE, 0, 1, X32), fail_with(libc::ENOSYS.cast_unsigned())]);
    }
    program
}

/// Searches for the call among those that are sorted by their numbers, and allows it if it is none of them.
fn search(answers: &[(libc::c_long, Answer)]) -> BpfProgram {
    let jump = |comparison, jump_true: usize, jump_false, call: libc::c_long| {
        // Half of some sixty calls, each with three instructions and a fork.
        let jump_true = u8::try_from(jump_true).unwrap_or(u8::MAX);
        instruction(libc::BPF_JMP | comparison | libc::BPF_K, jump_true, jump_false, call as u32)
    };
    match answers {
        [] => vec![answer_with(libc::SECCOMP_RET_ALLOW)],
        [(call, answer)] => {
            let found = match answer {
                Answer::Error(error) => fail_with(*error),
                Answer::Rules => instruction(JUMP.into(), 0, 0, 0),
            };
            vec![jump(libc::BPF_JEQ, 0, 1, *call), found, answer_with(libc::SECCOMP_RET_ALLOW)]
        }
        [.., _, _] => {
            let (low, high) = answers.split_at(answers.len() / 2);
            let below = search(low);
            let mut program = vec![jump(libc::BPF_JGE, below.len(), 0, high[0].0)];
            program.extend(below);
            program.extend(search(high));
            program
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a filter over a call without arguments.
    fn answer(program: &BpfProgram, machine: u32, call: u32) -> u32 {
        let (mut at, mut loaded) = (0, 0);
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            let skip = |holds: bool| usize::from(if holds { jt } else { jf });
            match u32::from(code) {
                code if code == libc::BPF_RET | libc::BPF_K => return k,
                code if code == libc::BPF_JMP | libc::BPF_JA => at += k as usize,
                code if code == libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K => at += skip(loaded == k),
                code if code == libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K => at += skip(loaded >= k),
                code if code == libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K => at += skip(loaded > k),
                code if code == libc::BPF_ALU | libc::BPF_AND | libc::BPF_K => loaded &= k,
                code if code == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS => {
                    loaded = [call, machine].get(k as usize / 4).copied().unwrap_or_default();
                }
                other => panic!("unknown instruction {other:#x}"),
            }
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn every_call_has_the_answer_that_the_lists_give_it() {
        const X86_64: u32 = 0xc000_003e;
        let program = program(Network::Allowed).expect("made");
        let refused = libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned();
        let unknown = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned();
        for call in 0..1000 {
            let wanted = if REFUSED.contains(&call) {
                refused
            } else if UNKNOWN.contains(&call) {
                unknown
            } else if call == libc::SYS_socket {
                // Family 0 is none of the allowed ones.
                refused
            } else {
                libc::SECCOMP_RET_ALLOW
            };
            let call = call as u32;
            assert_eq!(answer(&program, X86_64, call), wanted, "{call}");
            assert_eq!(answer(&program, X86_64, call | 0x4000_0000), unknown, "{call} of x32");
            assert_eq!(answer(&program, 0x4000_0003, call), libc::SECCOMP_RET_KILL_PROCESS, "{call} of i386");
        }
    }
}
