//! From a DDL's file to an agent: what is believed of it, which programs do its actions, and with which rights. Blocks.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use muster_api::ddl::{
    Action, Ddl, DdlError, MAX_DDL_BYTES, MAX_TEMPLATE_BYTES, TEMPLATE_ADVICE, finds_action_by_text,
};
use muster_api::{Agent, AgentError};
use nix::unistd::{Group, Uid, User, geteuid, getgrouplist};

use super::action::{External, Rights};
use super::options::{AgentOptions, Confine, Options, RESERVED, UNPRIVILEGED_USERS};
use super::place::{self, PlaceError};
use super::process::Helper;
use crate::sandbox::{Account, Confinement};

/// An agent that could be offered, once it says that it is of use.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) agent: Agent,
    /// The program to ask whether it is of use; scripts are not asked.
    pub(super) activation: Option<PathBuf>,
    pub(super) rights: Arc<Rights>,
}

/// What a draft depends on.
#[derive(Debug, Clone)]
pub(super) struct Rules {
    pub(super) options: Options,
    pub(super) builtin: BTreeSet<String>,
    pub(super) helper: Helper,
}

/// Why a file does not become an agent.
#[derive(Debug, thiserror::Error)]
pub(super) enum DraftError {
    #[error(transparent)]
    Place(#[from] PlaceError),
    #[error("cannot read {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} is not a usable DDL", path.display())]
    Ddl {
        path: PathBuf,
        #[source]
        source: DdlError,
    },
    #[error("{} describes the agent {name}; name the file {name}.json", path.display())]
    Name { path: PathBuf, name: String },
    #[error(
        "the agent {0} is built in; [plugins.external] replace = [\"{0}\"] lets another take its place"
    )]
    Builtin(String),
    #[error("no external agent may be called {0}")]
    Reserved(String),
    #[error("the configuration denies external agents called {0}")]
    Denied(String),
    #[error("{} is not there, and would be the agent's program", path.display())]
    NoProgram { path: PathBuf },
    #[error("{} is no program: chmod 755 it", path.display())]
    NotExecutable { path: PathBuf },
    #[error("{} is not run: {TEMPLATE_ADVICE}", path.display())]
    UnsafeTemplate { path: PathBuf },
    #[error("there is no {what} {name} on this machine")]
    NoAccount { what: &'static str, name: String },
    #[error(
        "there is neither a user muster-agent nor nobody to run the agent as; make one, or name one in [plugins.external.agents]"
    )]
    NoUnprivileged,
    #[error("cannot look up the {what} {name}")]
    Account {
        what: &'static str,
        name: String,
        #[source]
        source: nix::Error,
    },
    #[error("only a daemon that runs as root can run agents as {0}")]
    NotRoot(String),
    #[error(transparent)]
    Agent(#[from] AgentError),
}

/// Reads one DDL; nothing if it is not that of an external agent.
pub(super) fn draft(path: &Path, rules: &Rules) -> Result<Option<Draft>, DraftError> {
    let uid = geteuid().as_raw();
    let path = place::believed(path, uid)?;
    let bytes = read(&path)?;
    let ddl = Ddl::from_slice(&bytes).map_err(|source| DraftError::Ddl {
        path: path.clone(),
        source,
    })?;
    let scripts = ddl
        .actions()
        .iter()
        .any(|action| action.implemented_by().is_some());
    if ddl.metadata().provider.as_deref() != Some("external") && !scripts {
        return Ok(None);
    }
    let name = ddl.name().to_owned();
    may_be_called(&name, &path, rules)?;
    let directory = path.parent().unwrap_or(Path::new("/"));
    let rights = Arc::new(rights(&ddl, rules)?);
    let text = String::from_utf8_lossy(&bytes);
    let mut builder = Agent::builder(&text)?;
    let mut activation = None;
    for action in ddl.actions() {
        let program = place::believed(&program(directory, &name, action)?, uid)?;
        executable(&program)?;
        refuse_unsafe_template(&program)?;
        let script = action.implemented_by().is_some();
        if !script {
            activation = Some(program.clone());
        }
        let external = External {
            program,
            action: action.clone(),
            script,
            rights: Arc::clone(&rights),
        };
        builder = builder.handler(action.name(), Arc::new(external));
    }
    Ok(Some(Draft {
        agent: builder.build()?,
        activation,
        rights,
    }))
}

/// The files beside the DDL whose change is a change of the agent, as far as they are known.
pub(super) fn companions(ddl: &Path) -> Vec<PathBuf> {
    let Some(name) = ddl.file_stem() else {
        return Vec::new();
    };
    let directory = ddl.with_file_name(name);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&directory)
        .map(|entries| {
            entries
                .flatten()
                .map(|entry| entry.path())
                .take(100)
                .collect()
        })
        .unwrap_or_default();
    files.push(directory);
    files.sort();
    files
}

fn may_be_called(name: &str, path: &Path, rules: &Rules) -> Result<(), DraftError> {
    let name = name.to_owned();
    if path.file_stem().is_none_or(|stem| *stem != *name) {
        return Err(DraftError::Name {
            path: path.to_owned(),
            name,
        });
    }
    if RESERVED.contains(&name.as_str()) {
        return Err(DraftError::Reserved(name));
    }
    if rules.options.deny.contains(&name) {
        return Err(DraftError::Denied(name));
    }
    if rules.builtin.contains(&name) && !rules.options.replace.contains(&name) {
        return Err(DraftError::Builtin(name));
    }
    Ok(())
}

/// `NAME`, or `NAME/NAME-linux_amd64` for several machines' programs side by side; scripts are in `NAME/` or beside the DDL.
fn program(directory: &Path, name: &str, action: &Action) -> Result<PathBuf, DraftError> {
    let own = directory.join(name);
    let places = if let Some(script) = action.implemented_by() {
        vec![own.join(script), directory.join(script)]
    } else {
        let platform = format!("{name}-{}_{}", std::env::consts::OS, architecture());
        vec![own.join(platform), own]
    };
    match places.iter().find(|place| place.is_file()) {
        Some(found) => Ok(found.clone()),
        None => Err(DraftError::NoProgram {
            path: places.into_iter().next_back().unwrap_or_default(),
        }),
    }
}

/// This machine's architecture by Go's name, which Choria's programs carry.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        "powerpc64" => "ppc64le",
        other => other,
    }
}

fn executable(program: &Path) -> Result<(), DraftError> {
    let found = std::fs::metadata(program).map_err(|source| DraftError::Read {
        path: program.to_owned(),
        source,
    })?;
    if found.permissions().mode() & 0o111 == 0 {
        return Err(DraftError::NotExecutable {
            path: program.to_owned(),
        });
    }
    Ok(())
}

fn refuse_unsafe_template(program: &Path) -> Result<(), DraftError> {
    let begin = read_begin(program, MAX_TEMPLATE_BYTES)?;
    if finds_action_by_text(&begin) {
        return Err(DraftError::UnsafeTemplate {
            path: program.to_owned(),
        });
    }
    Ok(())
}

/// One byte more than a DDL may have is enough for it to be refused.
fn read(path: &Path) -> Result<Vec<u8>, DraftError> {
    read_begin(path, MAX_DDL_BYTES as u64 + 1)
}

fn read_begin(path: &Path, limit: u64) -> Result<Vec<u8>, DraftError> {
    let failed = |source| DraftError::Read {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

fn rights(ddl: &Ddl, rules: &Rules) -> Result<Rights, DraftError> {
    let options = rules.options.of(ddl.name());
    let user = match options.user.as_deref() {
        Some(name) => Some(user(name)?),
        None if geteuid().is_root() => Some(unprivileged_user()?),
        None => None,
    };
    if options.is_root() {
        tracing::warn!(
            agent = ddl.name(),
            "the agent's programs run as root, as the configuration says"
        );
    }
    let account = match &user {
        Some(user) => Some(account(user, options.group.as_deref())?),
        None => None,
    };
    let home = match user {
        Some(user) => user.dir,
        None => User::from_uid(geteuid())
            .ok()
            .flatten()
            .map_or_else(|| PathBuf::from("/"), |own| own.dir),
    };
    let confinement = confinement(ddl, &options);
    Ok(Rights {
        helper: rules.helper.clone(),
        account,
        home,
        limits: options.limits(),
        keep_capabilities: options.is_root() && confinement.is_none(),
        confinement,
    })
}

/// What the agent is confined to, if it is.
pub(super) fn confinement(ddl: &Ddl, options: &AgentOptions) -> Option<Confinement> {
    let declared = ddl.metadata().capabilities.clone();
    let wanted = match options.confine {
        Confine::Off => false,
        Confine::Declared => declared.is_some(),
        Confine::Required => true,
    };
    let declared = declared.unwrap_or_default();
    let paths = |declared: &[String], configured: &[PathBuf]| {
        let declared = declared.iter().map(PathBuf::from);
        declared.chain(configured.iter().cloned()).collect()
    };
    wanted.then(|| Confinement {
        read: paths(&declared.read, &options.read),
        write: paths(&declared.write, &options.write),
        network: options.network.unwrap_or(declared.network),
        unix_sockets: options.unix_sockets,
        required: options.confine == Confine::Required,
    })
}

/// The user of agents for which the configuration names none.
fn unprivileged_user() -> Result<User, DraftError> {
    for name in UNPRIVILEGED_USERS {
        match user(name) {
            Err(DraftError::NoAccount { .. }) => {}
            found => return found,
        }
    }
    Err(DraftError::NoUnprivileged)
}

fn user(name: &str) -> Result<User, DraftError> {
    let found = User::from_name(name).map_err(|source| DraftError::Account {
        what: "user",
        name: name.to_owned(),
        source,
    })?;
    let found = found.ok_or_else(|| DraftError::NoAccount {
        what: "user",
        name: name.to_owned(),
    })?;
    if geteuid() != Uid::from_raw(0) && found.uid != geteuid() {
        return Err(DraftError::NotRoot(name.to_owned()));
    }
    Ok(found)
}

fn account(user: &User, group: Option<&str>) -> Result<Account, DraftError> {
    let gid = match group {
        None => user.gid,
        Some(name) => Group::from_name(name)
            .map_err(|source| DraftError::Account {
                what: "group",
                name: name.to_owned(),
                source,
            })?
            .map(|group| group.gid)
            .ok_or_else(|| DraftError::NoAccount {
                what: "group",
                name: name.to_owned(),
            })?,
    };
    let failed = |source| DraftError::Account {
        what: "groups of",
        name: user.name.clone(),
        source,
    };
    let name = std::ffi::CString::new(user.name.as_str())
        .map_err(|_| failed(nix::errno::Errno::EINVAL))?;
    let groups = getgrouplist(&name, gid).map_err(failed)?;
    Ok(Account {
        uid: user.uid.as_raw(),
        gid: gid.as_raw(),
        groups: groups.into_iter().map(nix::unistd::Gid::as_raw).collect(),
    })
}
