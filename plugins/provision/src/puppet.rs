//! Calls Puppet on this machine, and locates its files. Uses argument arrays only; all functions block.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use muster_api::progress::ProgressSink;
use muster_api::system::command::OutputListener;
use muster_api::system::pid_lock;
use muster_api::system::{Command, CommandOutput, FileMetadata, SystemResult};
use muster_api::{ActionError, BlockingContext};

use crate::certificate::MAX_PEM_BYTES;
use serde_json::{Value, json};

use crate::options::Options;
use crate::outcome::first_error_line;
use crate::summary::{self, ProvisionRunSummary};

const PACKAGED_PUPPET: &str = "/opt/puppetlabs/bin/puppet";
/// The settings that contain the required paths and names.
const REQUIRED_SETTINGS: [&str; 10] = [
    "certname",
    "hostcert",
    "hostprivkey",
    "hostpubkey",
    "hostcsr",
    "localcacert",
    "hostcrl",
    "lastrunfile",
    "agent_disabled_lockfile",
    "agent_catalog_run_lockfile",
];
/// Timeout for reading the settings: a machine may be slow in the first minutes after boot.
const SETTINGS_TIMEOUT: Duration = Duration::from_mins(1);
/// Bytes of output kept for classification.
const MAX_OUTPUT_BYTES: usize = 4 * 1024 * 1024;
/// Bytes of the end of the output in a reply.
const MAX_ANSWER_BYTES: usize = 16 * 1024;
/// Longest line in a progress message, in characters.
const MAX_LINE_CHARS: usize = 1000;

/// Runs Puppet for one call.
pub(crate) struct PuppetRunner<'a> {
    options: &'a Options,
    cx: &'a BlockingContext,
    timeout: Duration,
}

/// Values of [`REQUIRED_SETTINGS`].
#[derive(Debug, Clone)]
pub(crate) struct PuppetSettings {
    pub(crate) certname: String,
    settings: BTreeMap<String, String>,
}

impl PuppetSettings {
    pub(crate) fn setting_path(&self, setting: &str) -> PathBuf {
        self.settings.get(setting).map(PathBuf::from).unwrap_or_default()
    }
}

impl<'a> PuppetRunner<'a> {
    pub(crate) fn new(options: &'a Options, cx: &'a BlockingContext, timeout: Duration) -> Self {
        Self { options, cx, timeout }
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    fn build_command(&self, args: &[&str]) -> Command {
        let program = match self.options.command.as_slice() {
            [] if self.path_exists(Path::new(PACKAGED_PUPPET)) => vec![PACKAGED_PUPPET.to_owned()],
            [] => vec!["puppet".to_owned()],
            given => given.to_vec(),
        };
        let args = args.iter().map(|arg| (*arg).to_owned());
        let arguments = self.options.arguments.iter().cloned();
        let mut command = Command::configured(program.into_iter().chain(args).chain(arguments));
        // Without a UTF-8 locale, Ruby treats text as ASCII.
        for name in ["LC_ALL", "LANG"] {
            command.env.insert(name.to_owned(), "C.UTF-8".to_owned());
        }
        command.cancel = self.cx.cancel_flag.clone();
        command.killed_with_parent = true;
        command.timeout = Some(self.timeout);
        command.output_limit = MAX_OUTPUT_BYTES;
        command
    }

    fn path_exists(&self, path: &Path) -> bool {
        matches!(self.cx.system.metadata(path), Ok(Some(_)))
    }

    /// Runs Puppet until it exits; sends its lines as progress if the caller asked for it.
    pub(crate) fn run(&self, args: &[&str]) -> SystemResult<CommandOutput> {
        let mut command = self.build_command(args);
        if self.cx.progress.is_wanted() {
            let (progress, pending) = (self.cx.progress.clone(), Mutex::new(String::new()));
            command.listener = Some(OutputListener::new(move |_, bytes| {
                let mut pending = pending.lock().unwrap_or_else(PoisonError::into_inner);
                emit_lines(&progress, &mut pending, bytes);
            }));
        }
        self.cx.system.run_command(&command)
    }

    /// Reads the settings with `puppet config print`, because only Puppet can interpret its configuration.
    pub(crate) fn read_settings(&self) -> Result<PuppetSettings, ActionError> {
        let args = [&["config", "print", "--section", "agent"], &REQUIRED_SETTINGS[..]].concat();
        let mut command = self.build_command(&args);
        command.timeout = Some(SETTINGS_TIMEOUT.min(self.timeout));
        let output = self.cx.system.run_command(&command)?;
        let text = String::from_utf8_lossy(&output.stdout);
        let settings: BTreeMap<String, String> = text
            .lines()
            .filter_map(|line| line.split_once(" = "))
            .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
            .collect();
        let missing =
            REQUIRED_SETTINGS.iter().find(|name| settings.get(**name).is_none_or(String::is_empty));
        if let Some(missing) = missing {
            return Err(ActionError::failed(format!(
                "cannot read the Puppet setting `{missing}`: `{}` exited with code {}: {}",
                args.join(" "),
                output.code,
                first_error_line(&output.combined_text())
            )));
        }
        let certname = settings.get("certname").cloned().unwrap_or_default();
        Ok(PuppetSettings { certname, settings })
    }

    /// Reads a PEM file; `None` if it does not exist.
    pub(crate) fn read_text(&self, path: &Path) -> Result<Option<String>, ActionError> {
        match self.cx.system.read_file(path, 16 * MAX_PEM_BYTES) {
            Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Identifies the current summary, to detect whether a later one is new.
    pub(crate) fn summary_version(
        &self,
        settings: &PuppetSettings,
    ) -> Option<(u64, std::time::SystemTime)> {
        let metadata = self.cx.system.metadata(&settings.setting_path("lastrunfile")).ok()??;
        let FileMetadata { inode, changed, .. } = metadata;
        Some((inode, changed))
    }

    pub(crate) fn read_summary(&self, settings: &PuppetSettings) -> Option<ProvisionRunSummary> {
        let path = settings.setting_path("lastrunfile");
        let bytes = self.cx.system.read_file(&path, summary::MAX_SUMMARY_BYTES).ok()?;
        ProvisionRunSummary::parse(&String::from_utf8_lossy(&bytes))
    }

    /// The file disables the agent whatever its content.
    pub(crate) fn disabled_reason(&self, settings: &PuppetSettings) -> Option<String> {
        let path = settings.setting_path("agent_disabled_lockfile");
        let bytes = match self.cx.system.read_file(&path, MAX_PEM_BYTES) {
            Ok(bytes) => bytes,
            Err(error) if error.is_not_found() => return None,
            Err(_) => Vec::new(),
        };
        let document: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let message = document.get("disabled_message").and_then(Value::as_str);
        let message = message.unwrap_or("reason not specified");
        Some(message.chars().filter(|c| !c.is_control()).take(300).collect())
    }

    /// Whether a run of Puppet is in progress, by Puppet's lock.
    pub(crate) fn is_locked(&self, settings: &PuppetSettings) -> bool {
        let path = settings.setting_path("agent_catalog_run_lockfile");
        pid_lock::lock_holder(&self.cx.system.host_path(&path)).is_some()
    }
}

/// The end of a program's output as text without terminal control characters.
pub(crate) fn printable_tail(output: &CommandOutput) -> String {
    let start = output.combined.len().saturating_sub(MAX_ANSWER_BYTES);
    let tail = output.combined.get(start..).unwrap_or_default();
    let text = String::from_utf8_lossy(tail);
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

/// Sends each complete line as progress.
fn emit_lines(progress: &ProgressSink, pending: &mut String, bytes: &[u8]) {
    pending.push_str(&String::from_utf8_lossy(bytes));
    while let Some((line, remainder)) = pending.split_once('\n') {
        let plain: String = line.chars().filter(|c| !c.is_control()).take(MAX_LINE_CHARS).collect();
        if !plain.is_empty() {
            progress.emit_event(json!({ "message": plain }));
        }
        *pending = remainder.to_owned();
    }
    // Discard an overlong line without a newline to bound memory.
    if pending.len() > 4 * MAX_LINE_CHARS {
        pending.clear();
    }
}
