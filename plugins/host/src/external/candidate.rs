//! Loads an agent from a DDL file: verifies file ownership, finds the programs of its actions, and resolves their privileges. Blocks.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use muster_api::ddl::{
    ActionSchema, AgentDdl, DdlError, MAX_DDL_BYTES, MAX_TEMPLATE_BYTES, TEMPLATE_ADVICE,
    finds_action_by_text,
};
use muster_api::system::SystemError;
use muster_api::{Agent, AgentError};
use nix::unistd::{Group, Uid, User, geteuid, getgrouplist};

use super::action::{ExecutionRights, ExternalAction};
use super::ddl_files;
use super::options::{
    ConfinementMode, ExternalAgentOptions, ExternalOptions, RESERVED_NAMES, UNPRIVILEGED_USERS,
};
use super::process::SandboxHelper;
use crate::sandbox::{SandboxConfinement, UnixAccount};

/// An agent that can be offered once its activation check succeeds.
#[derive(Debug)]
pub(super) struct AgentCandidate {
    pub(super) agent: Agent,
    /// The program for the activation check; scripts have none.
    pub(super) activation: Option<PathBuf>,
    pub(super) rights: Arc<ExecutionRights>,
}

#[derive(Debug, Clone)]
pub(super) struct AgentLoadRules {
    pub(super) options: ExternalOptions,
    pub(super) builtin: BTreeSet<String>,
    pub(super) helper: SandboxHelper,
}

/// Why a file does not become an agent.
#[derive(Debug, thiserror::Error)]
pub(super) enum AgentLoadError {
    #[error(transparent)]
    Untrusted(#[from] SystemError),
    #[error("cannot read {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} is not a valid DDL", path.display())]
    Ddl {
        path: PathBuf,
        #[source]
        source: DdlError,
    },
    #[error("{} describes the agent `{name}`; rename the file to {name}.json", path.display())]
    Name { path: PathBuf, name: String },
    #[error(
        "the agent `{0}` is built in; to replace it, set `replace = [\"{0}\"]` in [plugins.external]"
    )]
    Builtin(String),
    #[error("`{0}` is reserved; rename the external agent")]
    Reserved(String),
    #[error("the configuration denies an external agent with the name `{0}`")]
    Denied(String),
    #[error("the agent's program {} does not exist", path.display())]
    NoProgram { path: PathBuf },
    #[error("{path} is not executable; run `chmod 755 {path}`", path = path.display())]
    NotExecutable { path: PathBuf },
    #[error("{} is not safe to run: {TEMPLATE_ADVICE}", path.display())]
    UnsafeTemplate { path: PathBuf },
    #[error("the {kind} `{name}` does not exist on this machine")]
    NoAccount { kind: &'static str, name: String },
    #[error(
        "neither the user `muster-agent` nor `nobody` exists to run the agent; create one, or set `user` in [plugins.external.agents]"
    )]
    NoUnprivileged,
    #[error("cannot look up the {kind} `{name}`")]
    Account {
        kind: &'static str,
        name: String,
        #[source]
        source: nix::Error,
    },
    #[error("only a daemon that runs as root can run agents as the user `{0}`")]
    NotRoot(String),
    #[error(transparent)]
    Agent(#[from] AgentError),
}

/// Loads one DDL; `None` if it does not belong to an external agent.
pub(super) fn load_candidate(
    path: &Path,
    rules: &AgentLoadRules,
) -> Result<Option<AgentCandidate>, AgentLoadError> {
    let path = ddl_files::trusted_path(path)?;
    let bytes = read_ddl(&path)?;
    let ddl = AgentDdl::from_slice(&bytes)
        .map_err(|source| AgentLoadError::Ddl { path: path.clone(), source })?;
    let scripts = ddl.actions().iter().any(|action| action.implemented_by().is_some());
    if ddl.metadata().provider.as_deref() != Some("external") && !scripts {
        return Ok(None);
    }
    let name = ddl.name().to_owned();
    check_name(&name, &path, rules)?;
    let directory = path.parent().unwrap_or(Path::new("/"));
    let rights = Arc::new(resolve_rights(&ddl, rules)?);
    let text = String::from_utf8_lossy(&bytes);
    let mut builder = Agent::builder(&text)?;
    let mut activation = None;
    for action in ddl.actions() {
        let program = ddl_files::trusted_path(&find_program(directory, &name, action)?)?;
        check_executable(&program)?;
        refuse_unsafe_template(&program)?;
        let script = action.implemented_by().is_some();
        if !script {
            activation = Some(program.clone());
        }
        let external =
            ExternalAction { program, action: action.clone(), script, rights: Arc::clone(&rights) };
        builder = builder.with_handler(action.name(), Arc::new(external));
    }
    Ok(Some(AgentCandidate { agent: builder.build()?, activation, rights }))
}

/// The files besides the DDL whose change counts as a change of the agent, as far as they are known.
pub(super) fn companion_files(ddl: &Path) -> Vec<PathBuf> {
    let Some(name) = ddl.file_stem() else { return Vec::new() };
    let directory = ddl.with_file_name(name);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&directory)
        .map(|entries| entries.flatten().map(|entry| entry.path()).take(100).collect())
        .unwrap_or_default();
    files.push(directory);
    files.sort();
    files
}

fn check_name(name: &str, path: &Path, rules: &AgentLoadRules) -> Result<(), AgentLoadError> {
    let name = name.to_owned();
    if path.file_stem().is_none_or(|stem| *stem != *name) {
        return Err(AgentLoadError::Name { path: path.to_owned(), name });
    }
    if RESERVED_NAMES.contains(&name.as_str()) {
        return Err(AgentLoadError::Reserved(name));
    }
    if rules.options.deny.contains(&name) {
        return Err(AgentLoadError::Denied(name));
    }
    if rules.builtin.contains(&name) && !rules.options.replace.contains(&name) {
        return Err(AgentLoadError::Builtin(name));
    }
    Ok(())
}

/// `NAME`, or `NAME/NAME-linux_amd64` so that programs for several architectures fit side by side; scripts are in `NAME/` or beside the DDL.
fn find_program(
    directory: &Path,
    name: &str,
    action: &ActionSchema,
) -> Result<PathBuf, AgentLoadError> {
    let agent_directory = directory.join(name);
    let paths = if let Some(script) = action.implemented_by() {
        vec![agent_directory.join(script), directory.join(script)]
    } else {
        let platform = format!("{name}-{}_{}", std::env::consts::OS, go_architecture());
        vec![agent_directory.join(platform), agent_directory]
    };
    match paths.iter().find(|path| path.is_file()) {
        Some(path) => Ok(path.clone()),
        None => Err(AgentLoadError::NoProgram {
            path: paths.into_iter().next_back().unwrap_or_default(),
        }),
    }
}

/// This machine's architecture by its Go name, which the file names of Choria's programs contain.
fn go_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        "powerpc64" => "ppc64le",
        other => other,
    }
}

fn check_executable(program: &Path) -> Result<(), AgentLoadError> {
    let found = std::fs::metadata(program)
        .map_err(|source| AgentLoadError::Read { path: program.to_owned(), source })?;
    if found.permissions().mode() & 0o111 == 0 {
        return Err(AgentLoadError::NotExecutable { path: program.to_owned() });
    }
    Ok(())
}

fn refuse_unsafe_template(program: &Path) -> Result<(), AgentLoadError> {
    let prefix = read_prefix(program, MAX_TEMPLATE_BYTES)?;
    if finds_action_by_text(&prefix) {
        return Err(AgentLoadError::UnsafeTemplate { path: program.to_owned() });
    }
    Ok(())
}

/// Reads at most one byte more than the DDL size limit, which suffices to reject the file.
fn read_ddl(path: &Path) -> Result<Vec<u8>, AgentLoadError> {
    read_prefix(path, MAX_DDL_BYTES as u64 + 1)
}

fn read_prefix(path: &Path, limit: u64) -> Result<Vec<u8>, AgentLoadError> {
    File::open(path)
        .and_then(|file| muster_files::read_prefix(file, limit))
        .map_err(|source| AgentLoadError::Read { path: path.to_owned(), source })
}

fn resolve_rights(
    ddl: &AgentDdl,
    rules: &AgentLoadRules,
) -> Result<ExecutionRights, AgentLoadError> {
    let options = rules.options.agent_options(ddl.name());
    let user = match options.user.as_deref() {
        Some(name) => Some(find_user(name)?),
        None if geteuid().is_root() => Some(find_unprivileged_user()?),
        None => None,
    };
    if options.is_root() {
        tracing::warn!(agent = ddl.name(), "the agent's programs run as root, as configured");
    }
    let account = match &user {
        Some(user) => Some(resolve_account(user, options.group.as_deref())?),
        None => None,
    };
    let home = match user {
        Some(user) => user.dir,
        None => User::from_uid(geteuid())
            .ok()
            .flatten()
            .map_or_else(|| PathBuf::from("/"), |daemon_user| daemon_user.dir),
    };
    let confinement = resolve_confinement(ddl, &options);
    Ok(ExecutionRights {
        helper: rules.helper.clone(),
        account,
        home,
        limits: options.resource_limits(),
        keep_capabilities: options.is_root() && confinement.is_none(),
        confinement,
    })
}

/// The confinement of the agent, if it is confined.
pub(super) fn resolve_confinement(
    ddl: &AgentDdl,
    options: &ExternalAgentOptions,
) -> Option<SandboxConfinement> {
    let declared = ddl.metadata().capabilities.clone();
    let is_confined = match options.confine {
        ConfinementMode::Off => false,
        ConfinementMode::Declared => declared.is_some(),
        ConfinementMode::Required => true,
    };
    let declared = declared.unwrap_or_default();
    let paths = |declared: &[String], configured: &[PathBuf]| {
        let declared = declared.iter().map(PathBuf::from);
        declared.chain(configured.iter().cloned()).collect()
    };
    is_confined.then(|| SandboxConfinement {
        read: paths(&declared.read, &options.read),
        write: paths(&declared.write, &options.write),
        network: options.network.unwrap_or(declared.network),
        unix_sockets: options.unix_sockets,
        required: options.confine == ConfinementMode::Required,
    })
}

/// A user whose account cannot be found.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct AccountError(AgentLoadError);

/// The account of a user; `None` unless the daemon is root, because its programs run as its own user then.
pub fn find_account(user: &str) -> Result<Option<UnixAccount>, AccountError> {
    if geteuid() != Uid::from_raw(0) {
        return Ok(None);
    }
    let found = find_user(user).and_then(|user| resolve_account(&user, None));
    found.map(Some).map_err(AccountError)
}

/// The user of agents for which the configuration sets none.
fn find_unprivileged_user() -> Result<User, AgentLoadError> {
    for name in UNPRIVILEGED_USERS {
        match find_user(name) {
            Err(AgentLoadError::NoAccount { .. }) => {}
            found => return found,
        }
    }
    Err(AgentLoadError::NoUnprivileged)
}

fn find_user(name: &str) -> Result<User, AgentLoadError> {
    let found = User::from_name(name).map_err(|source| AgentLoadError::Account {
        kind: "user",
        name: name.to_owned(),
        source,
    })?;
    let found =
        found.ok_or_else(|| AgentLoadError::NoAccount { kind: "user", name: name.to_owned() })?;
    if geteuid() != Uid::from_raw(0) && found.uid != geteuid() {
        return Err(AgentLoadError::NotRoot(name.to_owned()));
    }
    Ok(found)
}

fn resolve_account(user: &User, group: Option<&str>) -> Result<UnixAccount, AgentLoadError> {
    let gid = match group {
        None => user.gid,
        Some(name) => Group::from_name(name)
            .map_err(|source| AgentLoadError::Account {
                kind: "group",
                name: name.to_owned(),
                source,
            })?
            .map(|group| group.gid)
            .ok_or_else(|| AgentLoadError::NoAccount { kind: "group", name: name.to_owned() })?,
    };
    let failed =
        |source| AgentLoadError::Account { kind: "groups of", name: user.name.clone(), source };
    let name = std::ffi::CString::new(user.name.as_str())
        .map_err(|_| failed(nix::errno::Errno::EINVAL))?;
    let groups = getgrouplist(&name, gid).map_err(failed)?;
    Ok(UnixAccount {
        uid: user.uid.as_raw(),
        gid: gid.as_raw(),
        groups: groups.into_iter().map(nix::unistd::Gid::as_raw).collect(),
    })
}
