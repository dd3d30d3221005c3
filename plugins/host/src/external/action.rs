//! One call of an external agent: a private directory with the request, one run, and its reply.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use muster_api::base::{duration_millis, error_chain, since_epoch};
use muster_api::ddl::ActionSchema;
use muster_api::{ActionError, ActionFuture, ActionHandler, CallContext};
use muster_wire::status::{ReplyReason, ReplyStatus};
use muster_wire::trace::TRACEPARENT_VARIABLE;
use serde_json::{Map, Value};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::call_directory::{CallDirectory, CallFiles, ReplyFileError};
use super::ddl_files;
use super::process::{self, ProgramOutput, ProgramRunError, SandboxHelper};
use super::program_log::{exit_summary, log_output, redact_secrets, sensitive_values};
use super::protocol::{self, ExternalReplyError, ExternalRequest};
use crate::sandbox::{ResourceLimits, SandboxConfinement, SandboxPlan, UnixAccount};

const ACTIVATION_TIMEOUT: Duration = Duration::from_secs(2);
/// The `PATH` of external programs.
const PROGRAM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The privileges of an agent's programs.
#[derive(Debug, Clone)]
pub(super) struct ExecutionRights {
    pub(super) helper: SandboxHelper,
    pub(super) account: Option<UnixAccount>,
    /// The home directory of the account, or of the daemon's own user.
    pub(super) home: PathBuf,
    pub(super) limits: ResourceLimits,
    pub(super) confinement: Option<SandboxConfinement>,
    /// Set when the program runs as root by configuration and is not confined.
    pub(super) keep_capabilities: bool,
}

/// An action implemented by a program.
#[derive(Debug)]
pub(super) struct ExternalAction {
    pub(super) program: PathBuf,
    pub(super) action: ActionSchema,
    /// Uses `MCollective`'s convention for scripts instead of Choria's protocol.
    pub(super) script: bool,
    pub(super) rights: Arc<ExecutionRights>,
}

impl ActionHandler for ExternalAction {
    fn call<'a>(&'a self, cx: &'a CallContext, input: Map<String, Value>) -> ActionFuture<'a> {
        Box::pin(self.run_program(cx, input))
    }
}

impl ExternalAction {
    async fn run_program(
        &self,
        cx: &CallContext,
        input: Map<String, Value>,
    ) -> Result<Map<String, Value>, ActionError> {
        // Others may have been permitted to change the files since they were loaded.
        ddl_files::trusted_path(&self.program)
            .map_err(|error| program_error(&self.program, &error_chain(&error)))?;
        let secrets = sensitive_values(&self.action, &input);
        let files = CallFiles {
            request: self.encode_request(cx, &input)?,
            facts: encode_json(cx.node.facts().as_map())?,
        };
        let directory =
            CallDirectory::create(files, self.rights.account.clone()).await.map_err(|error| {
                program_error(&self.program, &format!("cannot create its files: {error}"))
            })?;
        let environment = self.build_environment(cx, &directory);
        // `MCollective` gives scripts the two files only.
        let protocol = (!self.script).then_some(protocol::REQUEST_PROTOCOL);
        let plan = self.rights.build_plan(&self.program, &directory, protocol, environment);
        let output =
            process::run_sandboxed(&self.rights.helper, &plan, cx.deadline, &cx.cancel).await;
        let output = output.map_err(|error| map_run_error(&self.program, &error))?;
        log_output(cx.agent.as_str(), &output, &secrets);
        let (reply, _directory) = directory.read_reply().await;
        let reply = reply.map_err(|error| map_reply_error(&self.program, &error))?;
        if output.cancelled && !self.has_reply(&output, &reply) {
            return Err(ActionError::cancelled());
        }
        if self.script {
            return self.read_script_result(&output, &reply, &secrets);
        }
        if !output.status.success() {
            return Err(program_error(&self.program, &exit_summary(&output, &secrets)));
        }
        protocol::read_reply(&reply, &self.action)
            .map_err(|error| program_error(&self.program, &error.to_string()))?
    }

    /// Whether a cancelled program has replied before its exit. The exit code alone is no reply: a shell exits with a code after TERM.
    fn has_reply(&self, output: &ProgramOutput, reply: &[u8]) -> bool {
        if self.script {
            return !protocol::has_no_outputs(reply)
                && protocol::read_outputs(reply, &self.action).is_ok();
        }
        output.status.success() && protocol::read_reply(reply, &self.action).is_ok()
    }

    /// The declared outputs of a script count even if the script fails.
    fn read_script_result(
        &self,
        output: &ProgramOutput,
        reply: &[u8],
        secrets: &[String],
    ) -> Result<Map<String, Value>, ActionError> {
        let outputs = protocol::read_outputs(reply, &self.action);
        match output.status.code() {
            Some(0) => outputs.map_err(|error| program_error(&self.program, &error.to_string())),
            Some(code) => {
                let message = redact_secrets(&String::from_utf8_lossy(&output.stderr), secrets);
                let data = outputs.unwrap_or_default();
                Err(protocol::script_failure(code, &message).with_data(data))
            }
            None => Err(program_error(&self.program, &exit_summary(output, secrets))),
        }
    }

    fn encode_request(
        &self,
        cx: &CallContext,
        input: &Map<String, Value>,
    ) -> Result<Vec<u8>, ActionError> {
        let collective = cx.node.collectives().first();
        let mut request = ExternalRequest::new(cx.agent.as_str(), cx.action.as_str(), input);
        request.requestid = cx.request.simple().to_string();
        request.senderid = cx.caller.as_str();
        request.callerid = cx.caller.as_str();
        request.collective = collective.map_or("", |name| name.as_str());
        let left = cx.deadline.saturating_duration_since(Instant::now());
        request.ttl = left.as_secs().max(1);
        request.process_results = cx.reply_wanted;
        request.msgtime = since_epoch(SystemTime::now()).as_secs();
        if self.script { encode_json(&request.to_script_json()) } else { encode_json(&request) }
    }

    fn build_environment(
        &self,
        cx: &CallContext,
        directory: &CallDirectory,
    ) -> BTreeMap<String, String> {
        let trace = cx.trace.map(|trace| (TRACEPARENT_VARIABLE.to_owned(), trace.to_string()));
        let mut environment = self.protocol_environment(cx, directory);
        // The authorised agent, action and caller, for programs that cannot parse the request safely.
        environment.insert("MUSTER_ACTION".to_owned(), cx.action.to_string());
        environment.insert("MUSTER_REQUEST_ID".to_owned(), cx.request.simple().to_string());
        environment.extend(trace);
        environment
    }

    fn protocol_environment(
        &self,
        cx: &CallContext,
        directory: &CallDirectory,
    ) -> BTreeMap<String, String> {
        if self.script {
            return [
                ("MCOLLECTIVE_REQUEST_FILE", directory.file_path("request")),
                ("MCOLLECTIVE_REPLY_FILE", directory.file_path("reply")),
            ]
            .map(|(name, path)| (name.to_owned(), path_text(&path)))
            .into();
        }
        choria_environment(
            directory,
            protocol::REQUEST_PROTOCOL,
            &plugin_config_path(cx.node.config_file(), cx.agent.as_str()),
        )
    }
}

/// Why an activation check gave no result.
#[derive(Debug, thiserror::Error)]
pub(super) enum ActivationError {
    #[error("activation check: {0}")]
    Request(#[from] serde_json::Error),
    #[error("activation check: {0}")]
    Files(#[from] io::Error),
    #[error("activation check: {}", error_chain(.0))]
    Run(#[from] ProgramRunError),
    #[error("activation check: {0}")]
    Exit(String),
    #[error("activation check: {0}")]
    ReplyFile(#[from] ReplyFileError),
    #[error("activation check: {0}")]
    Reply(#[from] ExternalReplyError),
}

/// Any failure is an error that names the cause.
pub(super) async fn check_activation(
    program: &Path,
    agent: &str,
    rights: &ExecutionRights,
    config_file: &Path,
) -> Result<bool, ActivationError> {
    let protocol = protocol::ACTIVATION_REQUEST_PROTOCOL;
    let request = serde_json::to_vec(&protocol::activation_request(agent))?;
    let files = CallFiles { request, facts: b"{}".to_vec() };
    let directory = CallDirectory::create(files, rights.account.clone()).await?;
    let config = plugin_config_path(config_file, agent);
    let environment = choria_environment(&directory, protocol, &config);
    let plan = rights.build_plan(program, &directory, Some(protocol), environment);
    let deadline = Instant::now() + ACTIVATION_TIMEOUT;
    let output =
        process::run_sandboxed(&rights.helper, &plan, deadline, &CancellationToken::new()).await?;
    log_output(agent, &output, &[]);
    if !output.status.success() {
        return Err(ActivationError::Exit(exit_summary(&output, &[])));
    }
    let (reply, _directory) = directory.read_reply().await;
    Ok(protocol::read_activation(&reply?)?)
}

impl ExecutionRights {
    fn build_plan(
        &self,
        program: &Path,
        directory: &CallDirectory,
        protocol: Option<&str>,
        mut environment: BTreeMap<String, String>,
    ) -> SandboxPlan {
        let files = ["request", "reply"].map(|name| directory.file_path(name));
        let common = [
            ("PATH", PROGRAM_PATH.to_owned()),
            ("LC_ALL", "C".to_owned()),
            ("HOME", path_text(&self.home)),
            ("TMPDIR", path_text(directory.path())),
        ];
        environment.extend(common.map(|(name, value)| (name.to_owned(), value)));
        SandboxPlan {
            program: program.to_owned(),
            arguments: files.into_iter().chain(protocol.map(PathBuf::from)).collect(),
            environment,
            directory: directory.path().to_owned(),
            user: self.account.clone(),
            limits: self.limits.clone(),
            confinement: self.confinement.clone(),
            keep_capabilities: self.keep_capabilities,
        }
    }
}

fn choria_environment(
    directory: &CallDirectory,
    protocol: &str,
    config: &Path,
) -> BTreeMap<String, String> {
    [
        ("CHORIA_EXTERNAL_REQUEST", path_text(&directory.file_path("request"))),
        ("CHORIA_EXTERNAL_REPLY", path_text(&directory.file_path("reply"))),
        ("CHORIA_EXTERNAL_FACTS", path_text(&directory.file_path("facts"))),
        ("CHORIA_EXTERNAL_CONFIG", path_text(config)),
        ("CHORIA_EXTERNAL_PROTOCOL", protocol.to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// `plugin.d/NAME` in the directory of the daemon's configuration, or `NAME.cfg`, the name that Choria's Puppet modules write.
fn plugin_config_path(config_file: &Path, agent: &str) -> PathBuf {
    let path = config_file.with_file_name("plugin.d").join(agent);
    let with_extension = path.with_extension("cfg");
    if !path.exists() && with_extension.exists() {
        return with_extension;
    }
    path
}

fn encode_json(value: &impl serde::Serialize) -> Result<Vec<u8>, ActionError> {
    serde_json::to_vec(value).map_err(|error| ActionError::internal_error(error.to_string()))
}

fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn program_error(program: &Path, reason: &str) -> ActionError {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    ActionError::internal_error(format!("the agent's program `{name}` failed: {reason}"))
}

fn map_run_error(program: &Path, error: &ProgramRunError) -> ActionError {
    match error {
        ProgramRunError::Timeout(after) => {
            let after_ms = duration_millis(*after);
            ActionError {
                status: ReplyStatus::Other,
                reason: Some(ReplyReason::Timeout { after_ms }),
                ..ActionError::failed(error.to_string())
            }
        }
        ProgramRunError::Cancelled => ActionError::cancelled(),
        ProgramRunError::Start { .. } | ProgramRunError::Plan(_) => {
            program_error(program, &error_chain(error))
        }
    }
}

fn map_reply_error(program: &Path, error: &ReplyFileError) -> ActionError {
    let action_error = program_error(program, &error.to_string());
    match error {
        ReplyFileError::Oversized(bytes) => {
            ActionError { reason: Some(ReplyReason::Oversized { bytes: *bytes }), ..action_error }
        }
        ReplyFileError::Read(_) | ReplyFileError::NoFile => action_error,
    }
}
