//! Sandbox of external programs: a serialisable plan, and the step that applies it and executes the program.
//!
//! The daemon cannot apply it between fork and exec: that needs `unsafe` and is error-prone in a multi-threaded process. It starts itself again as
//! a helper (`rpcd exec-sandboxed`), whose single thread applies the plan to itself and then executes the program. A plan contains no secrets: it
//! is a command-line argument, which other users can read.

mod capabilities;
mod landlocked;
mod seccomp;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
#[expect(
    clippy::disallowed_types,
    reason = "the helper executes the program in its own process"
)]
use std::process::Command;

use landlock::{RulesetError, RulesetStatus};
use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::stat::{Mode, umask};
use nix::unistd::{Gid, Uid, setgid, setgroups, setuid};
use serde::{Deserialize, Serialize};

pub use landlocked::LandlockSupport;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxPlan {
    /// The program, an absolute path.
    pub program: PathBuf,
    pub arguments: Vec<PathBuf>,
    /// Its complete environment.
    pub environment: BTreeMap<String, String>,
    /// Its working directory.
    pub directory: PathBuf,
    /// The user; absent: the daemon's user.
    pub user: Option<UnixAccount>,
    pub limits: ResourceLimits,
    /// The files it may access; absent: all that its user may access.
    pub confinement: Option<SandboxConfinement>,
    /// Whether it keeps the daemon's capabilities. Only for an unconfined program that runs as root.
    pub keep_capabilities: bool,
}

/// A user by numeric ids, because no name lookup happens after privileges are dropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnixAccount {
    pub uid: u32,
    /// The main group.
    pub gid: u32,
    /// The supplementary groups.
    pub groups: Vec<u32>,
}

/// Kernel resource limits of one program. An absent limit is inherited from the daemon.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ResourceLimits {
    /// Address space in bytes.
    pub memory_bytes: Option<u64>,
    pub open_files: Option<u64>,
    /// Processes and threads of the user; the kernel does not apply this to root.
    pub processes: Option<u64>,
    /// Maximum size of a file that it writes, in bytes.
    pub file_bytes: Option<u64>,
    pub cpu_seconds: Option<u64>,
}

/// The files and network that a program may access; everything else is denied.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxConfinement {
    /// Paths it may read and execute.
    pub read: Vec<PathBuf>,
    /// Paths it may read, execute and change.
    pub write: Vec<PathBuf>,
    /// Internet sockets, TCP and UDP. Without it the program gets its own network namespace.
    pub network: bool,
    /// Unix sockets that other processes listen on: all that its user may connect to.
    pub unix_sockets: bool,
    /// Whether the program must not start if the kernel cannot enforce this.
    pub required: bool,
}

/// Why a program did not start in its sandbox.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    #[error("cannot parse the sandbox plan")]
    Plan(#[source] serde_json::Error),
    #[error("cannot limit {name}")]
    Limit {
        name: &'static str,
        #[source]
        source: Errno,
    },
    #[error("cannot change to user {uid} and group {gid}; this requires root")]
    User {
        uid: u32,
        gid: u32,
        #[source]
        source: Errno,
    },
    #[error("cannot set no_new_privs")]
    NoNewPrivs(#[source] Errno),
    #[error("cannot drop the capabilities")]
    Capabilities(#[source] rustix::io::Errno),
    #[error("cannot create a network namespace")]
    Network(#[source] Errno),
    #[error("cannot install the system call filter")]
    Seccomp(#[from] seccompiler::Error),
    #[error("cannot apply the Landlock rules")]
    Landlock(#[from] RulesetError),
    /// Landlock is required but not available.
    #[error("the kernel does not support Landlock, which the configuration requires")]
    Unconfined,
    #[error("cannot start {}{}", program.display(), reach_hint(source))]
    Start {
        program: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// What to check if the user of the program may not start it.
fn reach_hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => {
            " (the user of the agent must be able to enter all directories above it)"
        }
        _ => "",
    }
}

impl SandboxPlan {
    pub fn to_argument(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    pub fn from_argument(text: &str) -> Result<Self, SandboxError> {
        serde_json::from_str(text).map_err(SandboxError::Plan)
    }

    /// Returns only on failure; the process must then exit, because it has dropped an unknown part of its privileges.
    pub fn apply_and_exec(&self) -> Result<Infallible, SandboxError> {
        umask(Mode::S_IRWXG | Mode::S_IRWXO);
        self.limits.apply_limits()?;
        // Build the rules first and apply them last: the new user might not be able to open the paths in them.
        let rules = self
            .confinement
            .as_ref()
            .map(|confinement| landlocked::build_ruleset(self, confinement))
            .transpose()?;
        if self.confinement.as_ref().is_some_and(|files| !files.network) {
            enter_network_namespace()?;
        }
        // Before the user changes: it needs CAP_SETPCAP.
        if !self.keep_capabilities {
            capabilities::drop_bounding_set().map_err(SandboxError::Capabilities)?;
        }
        if let Some(account) = &self.user {
            account.switch_user()?;
        }
        if !self.keep_capabilities {
            capabilities::drop_own_sets().map_err(SandboxError::Capabilities)?;
        }
        // Landlock and seccomp require `no_new_privs` from a process without CAP_SYS_ADMIN.
        prctl::set_no_new_privs().map_err(SandboxError::NoNewPrivs)?;
        if let (Some(rules), Some(confinement)) = (rules, &self.confinement) {
            let status = rules.restrict_self()?;
            if confinement.required && status.ruleset == RulesetStatus::NotEnforced {
                return Err(SandboxError::Unconfined);
            }
            seccomp::install_filters(confinement)?;
        }
        Err(self.exec_program())
    }

    #[expect(
        clippy::disallowed_types,
        reason = "the helper executes the program in its own process"
    )]
    fn exec_program(&self) -> SandboxError {
        let source = Command::new(&self.program)
            .args(&self.arguments)
            .env_clear()
            .envs(&self.environment)
            .current_dir(&self.directory)
            .exec();
        SandboxError::Start { program: self.program.clone(), source }
    }
}

/// Moves into a network namespace without interfaces. Only root can do this; the system call filter denies sockets in any case.
fn enter_network_namespace() -> Result<(), SandboxError> {
    match unshare(CloneFlags::CLONE_NEWNET) {
        Ok(()) | Err(Errno::EPERM) => Ok(()),
        Err(other) => Err(SandboxError::Network(other)),
    }
}

impl UnixAccount {
    fn switch_user(&self) -> Result<(), SandboxError> {
        let failed = |source| SandboxError::User { uid: self.uid, gid: self.gid, source };
        let groups: Vec<Gid> = self.groups.iter().copied().map(Gid::from_raw).collect();
        setgroups(&groups).map_err(failed)?;
        setgid(Gid::from_raw(self.gid)).map_err(failed)?;
        setuid(Uid::from_raw(self.uid)).map_err(failed)
    }
}

impl ResourceLimits {
    fn apply_limits(&self) -> Result<(), SandboxError> {
        let limits = [
            ("memory", Resource::RLIMIT_AS, self.memory_bytes),
            ("open files", Resource::RLIMIT_NOFILE, self.open_files),
            ("processes", Resource::RLIMIT_NPROC, self.processes),
            ("the file size", Resource::RLIMIT_FSIZE, self.file_bytes),
            ("processor time", Resource::RLIMIT_CPU, self.cpu_seconds),
            // Disable core dumps: a program's memory may contain a password.
            ("core dumps", Resource::RLIMIT_CORE, Some(0)),
        ];
        for (name, resource, limit) in limits {
            if let Some(limit) = limit {
                setrlimit(resource, limit, limit)
                    .map_err(|source| SandboxError::Limit { name, source })?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{ResourceLimits, SandboxConfinement, SandboxPlan, UnixAccount};

    #[test]
    fn plan_round_trips_through_its_argument() {
        let plan = SandboxPlan {
            program: "/opt/x/agent".into(),
            arguments: vec!["/tmp/request".into()],
            environment: [("LC_ALL".to_owned(), "C".to_owned())].into(),
            directory: "/tmp".into(),
            user: Some(UnixAccount { uid: 65534, gid: 65534, groups: vec![4] }),
            limits: ResourceLimits { open_files: Some(64), ..ResourceLimits::default() },
            confinement: Some(SandboxConfinement {
                read: vec!["/srv".into()],
                required: true,
                ..SandboxConfinement::default()
            }),
            keep_capabilities: false,
        };
        let argument = plan.to_argument().unwrap();
        assert_eq!(SandboxPlan::from_argument(&argument).unwrap(), plan);
        assert!(SandboxPlan::from_argument("{}").is_err());
    }
}
