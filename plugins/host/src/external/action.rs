//! One call of an external agent: a private directory with the request in it, one run, and the reply that came of it.

use std::collections::BTreeMap;
use std::fs::{OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use muster_api::ddl::{Action, REDACTED};
use muster_api::system::error::chain;
use muster_api::{ActionError, Answer, Context, Handler};
use muster_wire::status::{Reason, Status};
use muster_wire::trace::VARIABLE;
use serde_json::{Map, Value};
use tempfile::TempDir;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::process::{self, Ended, Helper, RunError};
use super::protocol::{self, Request};
use crate::sandbox::{Account, Confinement, Plan, ResourceLimits};

/// How long an agent may think about whether it is of use.
const ACTIVATION: Duration = Duration::from_secs(2);
/// Most bytes of a reply's file. What may be sent is less, and decided later.
const REPLY_BYTES: u64 = 4 * 1024 * 1024;
/// The shortest secret that is looked for in output; shorter ones would hide half of it.
const SECRET_CHARS: usize = 4;
/// Most lines of one stream that are logged.
const LOGGED_LINES: usize = 100;
/// Where programs are looked for.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// With which rights an agent's programs run.
#[derive(Debug, Clone)]
pub(super) struct Rights {
    pub(super) helper: Helper,
    pub(super) account: Option<Account>,
    /// Of the account, or of the daemon's own user.
    pub(super) home: PathBuf,
    pub(super) limits: ResourceLimits,
    pub(super) confinement: Option<Confinement>,
    /// As root, where the configuration says so and nothing confines the agent.
    pub(super) keep_capabilities: bool,
}

/// An action that a program does.
#[derive(Debug)]
pub(super) struct External {
    pub(super) program: PathBuf,
    pub(super) action: Action,
    /// `MCollective`'s convention for scripts instead of Choria's protocol.
    pub(super) script: bool,
    pub(super) rights: Arc<Rights>,
}

impl Handler for External {
    fn call<'a>(&'a self, cx: &'a Context, input: Map<String, Value>) -> Answer<'a> {
        Box::pin(self.answer(cx, input))
    }
}

impl External {
    async fn answer(
        &self,
        cx: &Context,
        input: Map<String, Value>,
    ) -> Result<Map<String, Value>, ActionError> {
        let secrets = secrets(&self.action, &input);
        let files = Files {
            request: self.request(cx, &input)?,
            facts: encode(cx.node.facts().as_map())?,
        };
        let desk = Desk::lay(files, self.rights.account.clone())
            .await
            .map_err(|error| {
                broken(&self.program, &format!("cannot lay out its files: {error}"))
            })?;
        let environment = self.environment(cx, &desk);
        let plan = self
            .rights
            .plan(&self.program, &desk, protocol::REQUEST, environment);
        let ended = process::run(&self.rights.helper, &plan, cx.deadline, &cx.cancel).await;
        let ended = ended.map_err(|error| of_run(&self.program, &error))?;
        log(cx.agent.as_str(), &ended, &secrets);
        let (reply, _desk) = desk.reply().await;
        let reply = reply.map_err(|error| of_reply(&self.program, &error))?;
        if self.script {
            return self.of_script(&ended, &reply, &secrets);
        }
        if !ended.status.success() {
            return Err(broken(&self.program, &last_words(&ended, &secrets)));
        }
        protocol::read_reply(&reply, &self.action)
            .map_err(|error| broken(&self.program, &error.to_string()))?
    }

    /// A script's outputs count in spite of its failure, as far as they are declared.
    fn of_script(
        &self,
        ended: &Ended,
        reply: &[u8],
        secrets: &[String],
    ) -> Result<Map<String, Value>, ActionError> {
        let outputs = protocol::read_outputs(reply, &self.action);
        match ended.status.code() {
            Some(0) => outputs.map_err(|error| broken(&self.program, &error.to_string())),
            Some(code) => {
                let said = redact(&String::from_utf8_lossy(&ended.stderr), secrets);
                let data = outputs.unwrap_or_default();
                Err(protocol::script_failure(code, &said).with_data(data))
            }
            None => Err(broken(&self.program, &last_words(ended, secrets))),
        }
    }

    fn request(&self, cx: &Context, input: &Map<String, Value>) -> Result<Vec<u8>, ActionError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let collective = cx.node.collectives().first();
        let mut request = Request::new(cx.agent.as_str(), cx.action.as_str(), input);
        request.requestid = cx.request.simple().to_string();
        request.senderid = cx.caller.as_str();
        request.callerid = cx.caller.as_str();
        request.collective = collective.map_or("", |name| name.as_str());
        let left = cx.deadline.saturating_duration_since(Instant::now());
        request.ttl = left.as_secs().max(1);
        request.msgtime = now.map_or(0, |now| now.as_secs());
        if self.script {
            encode(&request.for_script())
        } else {
            encode(&request)
        }
    }

    fn environment(&self, cx: &Context, desk: &Desk) -> BTreeMap<String, String> {
        let trace = cx
            .trace
            .map(|trace| (VARIABLE.to_owned(), trace.to_string()));
        let mut environment = self.protocols_own(cx, desk);
        // What was authorised, for programs that cannot parse the request safely.
        environment.insert("MUSTER_ACTION".to_owned(), cx.action.to_string());
        environment.insert(
            "MUSTER_REQUEST_ID".to_owned(),
            cx.request.simple().to_string(),
        );
        environment.extend(trace);
        environment
    }

    fn protocols_own(&self, cx: &Context, desk: &Desk) -> BTreeMap<String, String> {
        if self.script {
            return [
                ("MCOLLECTIVE_REQUEST_FILE", desk.path("request")),
                ("MCOLLECTIVE_REPLY_FILE", desk.path("reply")),
            ]
            .map(|(name, path)| (name.to_owned(), text(&path)))
            .into();
        }
        choria(
            desk,
            protocol::REQUEST,
            &config(cx.node.config_file(), cx.agent.as_str()),
        )
    }
}

/// Asks an agent whether it is of use on this node. Every doubt is a no, and says why.
pub(super) async fn activates(
    program: &Path,
    agent: &str,
    rights: &Rights,
    config_file: &Path,
) -> Result<bool, String> {
    let refused = |error: &dyn std::fmt::Display| format!("activation check: {error}");
    let request = serde_json::to_vec(&protocol::activation_request(agent));
    let files = Files {
        request: request.map_err(|error| refused(&error))?,
        facts: b"{}".to_vec(),
    };
    let desk = Desk::lay(files, rights.account.clone())
        .await
        .map_err(|error| refused(&error))?;
    let environment = choria(
        &desk,
        protocol::ACTIVATION_REQUEST,
        &config(config_file, agent),
    );
    let plan = rights.plan(program, &desk, protocol::ACTIVATION_REQUEST, environment);
    let ended = process::run(
        &rights.helper,
        &plan,
        Instant::now() + ACTIVATION,
        &CancellationToken::new(),
    )
    .await;
    let ended = ended.map_err(|error| refused(&chain(&error)))?;
    log(agent, &ended, &[]);
    if !ended.status.success() {
        return Err(refused(&last_words(&ended, &[])));
    }
    let (reply, _desk) = desk.reply().await;
    let reply = reply.map_err(|error| refused(&error))?;
    protocol::read_activation(&reply).map_err(|error| refused(&error))
}

impl Rights {
    fn plan(
        &self,
        program: &Path,
        desk: &Desk,
        protocol: &str,
        mut environment: BTreeMap<String, String>,
    ) -> Plan {
        let common = [
            ("PATH", PATH.to_owned()),
            ("LC_ALL", "C".to_owned()),
            ("HOME", text(&self.home)),
            ("TMPDIR", text(desk.directory.path())),
        ];
        environment.extend(common.map(|(name, value)| (name.to_owned(), value)));
        Plan {
            program: program.to_owned(),
            arguments: vec![desk.path("request"), desk.path("reply"), protocol.into()],
            environment,
            directory: desk.directory.path().to_owned(),
            user: self.account.clone(),
            limits: self.limits.clone(),
            confinement: self.confinement.clone(),
            keep_capabilities: self.keep_capabilities,
        }
    }
}

fn choria(desk: &Desk, protocol: &str, config: &Path) -> BTreeMap<String, String> {
    [
        ("CHORIA_EXTERNAL_REQUEST", text(&desk.path("request"))),
        ("CHORIA_EXTERNAL_REPLY", text(&desk.path("reply"))),
        ("CHORIA_EXTERNAL_FACTS", text(&desk.path("facts"))),
        ("CHORIA_EXTERNAL_CONFIG", text(config)),
        ("CHORIA_EXTERNAL_PROTOCOL", protocol.to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// `plugin.d/NAME` beside the daemon's configuration, or `NAME.cfg`, as Choria's Puppet modules write it.
fn config(daemons: &Path, agent: &str) -> PathBuf {
    let plain = daemons.with_file_name("plugin.d").join(agent);
    let with_extension = plain.with_extension("cfg");
    if !plain.exists() && with_extension.exists() {
        return with_extension;
    }
    plain
}

struct Files {
    request: Vec<u8>,
    facts: Vec<u8>,
}

/// The private directory of one run. It goes away with the value, on a thread that may block.
struct Desk {
    directory: Kept,
}

/// A directory that is removed where blocking is allowed: a program may leave much behind in it.
struct Kept(Option<TempDir>);

impl Kept {
    fn path(&self) -> &Path {
        self.0.as_ref().map_or(Path::new("/"), TempDir::path)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let Some(directory) = self.0.take() else {
            return;
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || drop(directory))),
            Err(_) => drop(directory),
        }
    }
}

impl Desk {
    async fn lay(files: Files, owner: Option<Account>) -> io::Result<Self> {
        let laid = tokio::task::spawn_blocking(move || Self::lay_blocking(&files, owner.as_ref()));
        laid.await.map_err(io::Error::other)?
    }

    fn lay_blocking(files: &Files, owner: Option<&Account>) -> io::Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix("muster-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir()?;
        let contents: [(&str, &[u8]); 3] = [
            ("request", &files.request),
            ("reply", b""),
            ("facts", &files.facts),
        ];
        for (name, bytes) in contents {
            let path = directory.path().join(name);
            let mut file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&path)?;
            file.write_all(bytes)?;
            if let Some(owner) = owner {
                chown(&path, Some(owner.uid), Some(owner.gid))?;
            }
        }
        if let Some(owner) = owner {
            chown(directory.path(), Some(owner.uid), Some(owner.gid))?;
        }
        Ok(Self {
            directory: Kept(Some(directory)),
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// What the program wrote. The desk comes back, to be cleared away by the caller.
    async fn reply(self) -> (Result<Vec<u8>, FileError>, Self) {
        let path = self.path("reply");
        let read = tokio::task::spawn_blocking(move || read_reply(&path)).await;
        (
            read.unwrap_or_else(|error| Err(io::Error::other(error).into())),
            self,
        )
    }
}

#[derive(Debug, thiserror::Error)]
enum FileError {
    #[error("its reply cannot be read: {0}")]
    Read(#[from] io::Error),
    #[error("its reply is no plain file")]
    NoFile,
    #[error("its reply has {0} bytes, and {REPLY_BYTES} are read")]
    Oversized(u64),
}

/// The program may have put anything in the place of the file: a link to a secret, a pipe that never ends.
fn read_reply(path: &Path) -> Result<Vec<u8>, FileError> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.is_file() => return Err(FileError::NoFile),
        Ok(found) if found.len() > REPLY_BYTES => return Err(FileError::Oversized(found.len())),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    }
    let flags = nix::fcntl::OFlag::O_NOFOLLOW | nix::fcntl::OFlag::O_NONBLOCK;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits())
        .open(path)?;
    let mut bytes = Vec::new();
    file.take(REPLY_BYTES + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 {
        size if size > REPLY_BYTES => Err(FileError::Oversized(size)),
        _ => Ok(bytes),
    }
}

fn encode(value: &impl serde::Serialize) -> Result<Vec<u8>, ActionError> {
    serde_json::to_vec(value).map_err(|error| ActionError::broken(error.to_string()))
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn broken(program: &Path, why: &str) -> ActionError {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    ActionError::broken(format!("the agent's program {name} broke: {why}"))
}

fn of_run(program: &Path, error: &RunError) -> ActionError {
    match error {
        RunError::Timeout(after) => {
            let after_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
            ActionError {
                status: Status::Other,
                reason: Some(Reason::Timeout { after_ms }),
                ..ActionError::failed(error.to_string())
            }
        }
        RunError::Abandoned => ActionError::cancelled(),
        RunError::Start { .. } | RunError::Plan(_) => broken(program, &chain(error)),
    }
}

fn of_reply(program: &Path, error: &FileError) -> ActionError {
    let told = broken(program, &error.to_string());
    match error {
        FileError::Oversized(bytes) => ActionError {
            reason: Some(Reason::Oversized { bytes: *bytes }),
            ..told
        },
        FileError::Read(_) | FileError::NoFile => told,
    }
}

/// How a program ended, with the last line that it wrote.
fn last_words(ended: &Ended, secrets: &[String]) -> String {
    let said = redact(&String::from_utf8_lossy(&ended.stderr), secrets);
    let last = said.lines().rev().find(|line| !line.trim().is_empty());
    match last {
        Some(line) => format!(
            "{}: {}",
            ended.status,
            line.trim().chars().take(500).collect::<String>()
        ),
        None => ended.status.to_string(),
    }
}

/// Standard output is logged as information, standard error as a warning; line by line, not without end, and without secrets.
fn log(agent: &str, ended: &Ended, secrets: &[String]) {
    for line in lines(&ended.stdout, secrets) {
        tracing::info!(agent, "{line}");
    }
    for line in lines(&ended.stderr, secrets) {
        tracing::warn!(agent, "{line}");
    }
}

fn lines(output: &[u8], secrets: &[String]) -> Vec<String> {
    let text = redact(&String::from_utf8_lossy(output), secrets);
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let plain = |line: &str| {
        line.chars()
            .filter(|sign| !sign.is_control())
            .take(1000)
            .collect()
    };
    lines.take(LOGGED_LINES).map(plain).collect()
}

/// The values of sensitive inputs, as they could appear in output.
fn secrets(action: &Action, input: &Map<String, Value>) -> Vec<String> {
    let sensitive = input.iter().filter(|(name, _)| action.is_sensitive(name));
    let shown = sensitive.map(|(_, value)| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    });
    shown
        .filter(|text| text.chars().count() >= SECRET_CHARS)
        .collect()
}

fn redact(text: &str, secrets: &[String]) -> String {
    secrets.iter().fold(text.to_owned(), |text, secret| {
        text.replace(secret, REDACTED)
    })
}
