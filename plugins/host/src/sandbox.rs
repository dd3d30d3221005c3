//! What a program of somebody else's may do, as a value; and the step that takes it on and becomes the program.
//!
//! The daemon cannot do this between fork and exec: that needs `unsafe`, and is delicate in a process with threads. So it
//! starts itself once more as a helper (`rpcd exec-sandboxed`), whose one thread applies the plan to itself and then
//! *becomes* the program. Nothing secret is in a plan: it is the helper's argument, which others can read.

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
    reason = "the helper becomes the program; it starts none beside it"
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

/// A program, and what it may do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxPlan {
    /// The program, an absolute path.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<PathBuf>,
    /// Its whole environment.
    pub environment: BTreeMap<String, String>,
    /// Where it starts.
    pub directory: PathBuf,
    /// Who it is; absent: who the daemon is.
    pub user: Option<UnixAccount>,
    /// How much it may use.
    pub limits: ResourceLimits,
    /// Which files it may touch; absent: those that its user may.
    pub confinement: Option<SandboxConfinement>,
    /// Whether it keeps the daemon's capabilities. Only for a program that is to run as root and is not confined.
    pub keep_capabilities: bool,
}

/// A user by numbers, because names are not looked up in a program that gives up its rights.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnixAccount {
    /// The user.
    pub uid: u32,
    /// The main group.
    pub gid: u32,
    /// All other groups.
    pub groups: Vec<u32>,
}

/// The kernel's limits for one program. What is absent is as the daemon's.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ResourceLimits {
    /// Address space in bytes.
    pub memory_bytes: Option<u64>,
    /// Open files.
    pub open_files: Option<u64>,
    /// Processes and threads of the user; the kernel does not hold root to it.
    pub processes: Option<u64>,
    /// Size of any one file that it writes, in bytes.
    pub file_bytes: Option<u64>,
    /// Seconds of processor time.
    pub cpu_seconds: Option<u64>,
}

/// Files and network that are open to a program; nothing else is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxConfinement {
    /// Read and executed.
    pub read: Vec<PathBuf>,
    /// Read, executed, and changed.
    pub write: Vec<PathBuf>,
    /// Internet sockets, TCP and UDP. Without it the program has a network namespace of its own.
    pub network: bool,
    /// Unix sockets that other processes listen on: any that its user may connect to.
    pub unix_sockets: bool,
    /// Whether a kernel that cannot see to this is a reason not to start.
    pub required: bool,
}

/// Why a program was not started in its sandbox.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The argument is no plan.
    #[error("the plan of a sandbox cannot be read")]
    Plan(#[source] serde_json::Error),
    /// A limit.
    #[error("cannot limit {what}")]
    Limit {
        /// What should be limited.
        what: &'static str,
        /// The kernel's word.
        #[source]
        source: Errno,
    },
    /// Another user.
    #[error("cannot become user {uid} and group {gid}; only root can")]
    User {
        /// The user.
        uid: u32,
        /// The group.
        gid: u32,
        /// The kernel's word.
        #[source]
        source: Errno,
    },
    /// The promise to gain no rights.
    #[error("cannot renounce new rights")]
    Renounce(#[source] Errno),
    /// Capabilities.
    #[error("cannot drop the capabilities")]
    Capabilities(#[source] rustix::io::Errno),
    /// A network namespace.
    #[error("cannot make a network namespace")]
    Network(#[source] Errno),
    /// The filter of system calls.
    #[error("cannot filter system calls")]
    Seccomp(#[from] seccompiler::Error),
    /// Landlock.
    #[error("cannot confine the program to its files")]
    Landlock(#[from] RulesetError),
    /// Landlock is needed, and not there.
    #[error(
        "the kernel cannot confine programs to files (Landlock), and the configuration requires it"
    )]
    Unconfined,
    /// The program.
    #[error("cannot start {}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// The system's word.
        #[source]
        source: io::Error,
    },
}

impl SandboxPlan {
    /// The plan as the helper's argument.
    pub fn to_argument(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    /// The plan that is in the helper's argument.
    pub fn from_argument(text: &str) -> Result<Self, SandboxError> {
        serde_json::from_str(text).map_err(SandboxError::Plan)
    }

    /// Takes the plan on and becomes the program. Comes back only when that is not possible; the process must end then, because it
    /// has given up an unknown part of its rights.
    pub fn apply_and_exec(&self) -> Result<Infallible, SandboxError> {
        umask(Mode::S_IRWXG | Mode::S_IRWXO);
        self.limits.apply_limits()?;
        // Rules name places that the new user might not be able to open: they are made first, and come into force last.
        let rules = self
            .confinement
            .as_ref()
            .map(|confinement| landlocked::build_ruleset(self, confinement))
            .transpose()?;
        if self
            .confinement
            .as_ref()
            .is_some_and(|files| !files.network)
        {
            enter_network_namespace()?;
        }
        if !self.keep_capabilities {
            capabilities::drop_bounding_set().map_err(SandboxError::Capabilities)?;
        }
        if let Some(account) = &self.user {
            account.switch_user()?;
        }
        if !self.keep_capabilities {
            capabilities::drop_own_sets().map_err(SandboxError::Capabilities)?;
        }
        prctl::set_no_new_privs().map_err(SandboxError::Renounce)?;
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
        reason = "the helper becomes the program; it starts none beside it"
    )]
    fn exec_program(&self) -> SandboxError {
        let source = Command::new(&self.program)
            .args(&self.arguments)
            .env_clear()
            .envs(&self.environment)
            .current_dir(&self.directory)
            .exec();
        SandboxError::Start {
            program: self.program.clone(),
            source,
        }
    }
}

/// Moves into a network namespace without interfaces. Only root can; the filter of system calls refuses sockets to all.
fn enter_network_namespace() -> Result<(), SandboxError> {
    match unshare(CloneFlags::CLONE_NEWNET) {
        Ok(()) | Err(Errno::EPERM) => Ok(()),
        Err(other) => Err(SandboxError::Network(other)),
    }
}

impl UnixAccount {
    fn switch_user(&self) -> Result<(), SandboxError> {
        let failed = |source| SandboxError::User {
            uid: self.uid,
            gid: self.gid,
            source,
        };
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
            ("the size of files", Resource::RLIMIT_FSIZE, self.file_bytes),
            ("processor time", Resource::RLIMIT_CPU, self.cpu_seconds),
            // What a program had in memory, a password among it, is not left in a file.
            ("core dumps", Resource::RLIMIT_CORE, Some(0)),
        ];
        for (what, resource, limit) in limits {
            if let Some(limit) = limit {
                setrlimit(resource, limit, limit)
                    .map_err(|source| SandboxError::Limit { what, source })?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{ResourceLimits, SandboxConfinement, SandboxPlan, UnixAccount};

    #[test]
    fn a_plan_survives_its_way_to_the_helper() {
        let plan = SandboxPlan {
            program: "/opt/x/agent".into(),
            arguments: vec!["/tmp/request".into()],
            environment: [("LC_ALL".to_owned(), "C".to_owned())].into(),
            directory: "/tmp".into(),
            user: Some(UnixAccount {
                uid: 65534,
                gid: 65534,
                groups: vec![4],
            }),
            limits: ResourceLimits {
                open_files: Some(64),
                ..ResourceLimits::default()
            },
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
