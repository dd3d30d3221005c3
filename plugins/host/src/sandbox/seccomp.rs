//! The system call filter of a confined program: covers what Landlock does not.
//!
//! It is a deny list, because programs in any language must run. Calls newer than this list fail as not implemented, and so does the x32 interface,
//! whose numbers are higher.

use std::collections::BTreeMap;

use nix::libc;
use seccompiler::{
    BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, apply_filter, sock_filter,
};

use super::SandboxConfinement;

/// `mseal`, the newest call that was assessed for the list. The numbers are the same on every architecture from 424 on.
const NEWEST_SYSCALL: u32 = 462;
/// The bits of `socket`'s second argument that hold the type.
const SOCKET_TYPE_BITS: u64 = 0xf;

/// The obsolete type of packet sockets, deprecated in `libc`.
const SOCK_PACKET: libc::c_int = 10;

/// Calls that fail with `EPERM`.
const REFUSED_SYSCALLS: [libc::c_long; 58] = [
    // Clock, names and state of the machine.
    libc::SYS_acct,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_init_module,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_reboot,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    // Mounts and namespaces.
    libc::SYS_chroot,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_pivot_root,
    libc::SYS_setns,
    libc::SYS_umount2,
    libc::SYS_unshare,
    // Other processes.
    libc::SYS_kcmp,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    libc::SYS_pidfd_getfd,
    libc::SYS_process_madvise,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    // Kernel interfaces with a history of vulnerabilities, or that bypass this filter.
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_fanotify_init,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_keyctl,
    libc::SYS_lookup_dcookie,
    libc::SYS_mbind,
    libc::SYS_nfsservctl,
    libc::SYS_perf_event_open,
    libc::SYS_personality,
    libc::SYS_request_key,
    libc::SYS_set_mempolicy,
    libc::SYS_set_mempolicy_home_node,
    libc::SYS_userfaultfd,
    libc::SYS_memfd_secret,
];

/// Namespaces that `clone` could create.
const NAMESPACE_FLAGS: [libc::c_int; 7] = [
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWUTS,
];

/// Applies both filters to this process and its descendants. The process has set `no_new_privs` before.
pub(super) fn install_filters(confinement: &SandboxConfinement) -> Result<(), Error> {
    apply_filter(&unknown_syscall_filter())?;
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        REFUSED_SYSCALLS.iter().map(|call| (syscall_number(*call), Vec::new())).collect();
    for (call, refused) in [
        (libc::SYS_socket, socket_rules(confinement)?),
        (libc::SYS_clone, namespace_rules()?),
        (libc::SYS_ioctl, terminal_rules()?),
    ] {
        rules.insert(syscall_number(call), refused);
    }
    if !confinement.unix_sockets {
        rules.insert(syscall_number(libc::SYS_socketpair), socketpair_rules()?);
    }
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EPERM.unsigned_abs()),
        std::env::consts::ARCH.try_into()?,
    )?;
    let program: BpfProgram = filter.try_into()?;
    apply_filter(&program)
}

/// `c_long` has 32 bits on some architectures.
#[expect(clippy::useless_conversion, reason = "the type differs between architectures")]
fn syscall_number(call: libc::c_long) -> i64 {
    i64::from(call)
}

/// Makes calls beyond the list fail as not implemented, and `clone3` too, because a filter cannot see its flags. C libraries then fall back to
/// `clone`.
fn unknown_syscall_filter() -> BpfProgram {
    let (load, greater, equal, ret) = (
        libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
        libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K,
        libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
        libc::BPF_RET | libc::BPF_K,
    );
    let enosys = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs();
    let clone3 = u32::try_from(libc::SYS_clone3).unwrap_or(0);
    // Offset 0 of `seccomp_data` is the call number. Numbers above the newest call, and `clone3`, jump to the last instruction (ENOSYS).
    [
        (load, 0, 0, 0),
        (greater, 2, 0, NEWEST_SYSCALL),
        (equal, 1, 0, clone3),
        (ret, 0, 0, libc::SECCOMP_RET_ALLOW),
        (ret, 0, 0, enosys),
    ]
    .into_iter()
    .map(|(code, jt, jf, k)| sock_filter { code: u16::try_from(code).unwrap_or(0), jt, jf, k })
    .collect()
}

/// The denied sockets: every family that is not granted, and those that see other processes' packets.
fn socket_rules(confinement: &SandboxConfinement) -> Result<Vec<SeccompRule>, Error> {
    let mut families = Vec::new();
    if confinement.unix_sockets {
        families.push(libc::AF_UNIX);
    }
    if confinement.network {
        families.extend([libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK]);
    }
    if families.is_empty() {
        return Ok(Vec::new());
    }
    let other = families
        .iter()
        .map(|family| argument_condition(0, SeccompCmpOp::Ne, *family))
        .collect::<Result<_, _>>()?;
    let kind = |kind| argument_condition(1, SeccompCmpOp::MaskedEq(SOCKET_TYPE_BITS), kind);
    let netlink = |operator| argument_condition(0, operator, libc::AF_NETLINK);
    Ok(vec![
        SeccompRule::new(other)?,
        SeccompRule::new(vec![netlink(SeccompCmpOp::Ne)?, kind(libc::SOCK_RAW)?])?,
        SeccompRule::new(vec![kind(SOCK_PACKET)?])?,
        // Resolvers use it to list the machine's addresses.
        SeccompRule::new(vec![
            netlink(SeccompCmpOp::Eq)?,
            argument_condition(2, SeccompCmpOp::Ne, libc::NETLINK_ROUTE)?,
        ])?,
    ])
}

/// A pair of datagram sockets can be reconnected to another process's socket; pairs of stream sockets cannot.
fn socketpair_rules() -> Result<Vec<SeccompRule>, Error> {
    [libc::SOCK_DGRAM, libc::SOCK_RAW]
        .into_iter()
        .map(|kind| {
            let kind = argument_condition(1, SeccompCmpOp::MaskedEq(SOCKET_TYPE_BITS), kind)?;
            Ok(SeccompRule::new(vec![kind])?)
        })
        .collect()
}

fn namespace_rules() -> Result<Vec<SeccompRule>, Error> {
    NAMESPACE_FLAGS
        .into_iter()
        .map(|flag| {
            let bit = u64::from(flag.unsigned_abs());
            let flag = argument_condition(0, SeccompCmpOp::MaskedEq(bit), flag)?;
            Ok(SeccompRule::new(vec![flag])?)
        })
        .collect()
}

/// Denies ioctls that inject input into another process's terminal.
fn terminal_rules() -> Result<Vec<SeccompRule>, Error> {
    let request =
        SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, libc::TIOCSTI)?;
    Ok(vec![SeccompRule::new(vec![request])?])
}

fn argument_condition(
    index: u8,
    operator: SeccompCmpOp,
    value: libc::c_int,
) -> Result<SeccompCondition, Error> {
    let value = u64::from(value.unsigned_abs());
    Ok(SeccompCondition::new(index, SeccompCmpArgLen::Dword, operator, value)?)
}
