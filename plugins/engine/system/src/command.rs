//! A program to run, as a value. Argument arrays only, so a shell command line cannot be built by accident.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::error::SystemError;

/// A program and its environment. The environment is clean: only `env`, plus `PATH`, `LC_ALL=C` and `HOME`.
#[derive(Clone)]
pub struct Command {
    /// Program and arguments. A program without a slash is looked up in `PATH` of `env`, or the standard one.
    pub argv: Vec<String>,
    /// Bytes for standard input; empty means `/dev/null`. Omitted in `Debug`, because it may contain passwords.
    pub stdin: Vec<u8>,
    /// Additional environment.
    pub env: BTreeMap<String, String>,
    /// Working directory as a node path; default `/`.
    pub cwd: Option<PathBuf>,
    pub umask: Option<u32>,
    /// Run as this user (numeric) with its groups.
    pub uid: Option<u32>,
    /// Run with this group (numeric).
    pub gid: Option<u32>,
    /// Timeout; the process group then gets TERM, and later KILL. `None`: no timeout.
    pub timeout: Option<Duration>,
    /// Maximum number of output bytes kept; further output is read and dropped, and [`CommandOutput::truncated`] is set.
    pub output_limit: usize,
    /// Refuse a program that other users can change, unless it runs as another user than root. For programs that the configuration names.
    pub protected: bool,
    /// Ends the process group early when set.
    pub cancel: CancelFlag,
    /// Never end it because of a cancellation or the end of this process: the call then fails with [`SystemError::LeftRunning`], and the program
    /// keeps running. Its timeout still applies while this process waits. For tools that leave the machine half-changed when they are interrupted. Both output
    /// streams are kept as one, and the listener gets nothing.
    pub uninterrupted: bool,
    /// Kill the program when this process ends without having ended it, for example when it is killed itself. For programs that cannot bear the loss of
    /// their output: Puppet reports a broken pipe on standard error, which is a broken pipe, and repeats this without end. Works on the host only, and needs
    /// setpriv of util-linux.
    pub killed_with_parent: bool,
    /// Receives all output as it arrives, including output beyond the limit and before a timeout.
    pub listener: Option<OutputListener>,
}

impl Command {
    /// A command with a clean environment, no input, a timeout of 300 s and an output limit of 1 MiB.
    pub fn new<S: Into<String>>(argv: impl IntoIterator<Item = S>) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            stdin: Vec::new(),
            env: BTreeMap::new(),
            cwd: None,
            umask: None,
            uid: None,
            gid: None,
            timeout: Some(Duration::from_mins(5)),
            output_limit: 1024 * 1024,
            protected: false,
            cancel: CancelFlag::default(),
            uninterrupted: false,
            killed_with_parent: false,
            listener: None,
        }
    }

    /// The same for a program that the configuration names: others must not be able to change it.
    pub fn configured<S: Into<String>>(argv: impl IntoIterator<Item = S>) -> Self {
        Self { protected: true, ..Self::new(argv) }
    }

    /// Adds the program to the error of its start; for `map_err`.
    pub(crate) fn start_error<E: Into<io::Error>>(&self) -> impl Fn(E) -> SystemError {
        let program = self.program_name();
        move |source| SystemError::Start { program: program.to_owned(), source: source.into() }
    }

    pub fn program_name(&self) -> &str {
        self.argv.first().map_or("", String::as_str)
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command")
            .field("argv", &self.argv)
            .field("cwd", &self.cwd)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OutputStream {
    Stdout,
    Stderr,
}

impl OutputStream {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

type OutputCallback = dyn Fn(OutputStream, &[u8]) + Send + Sync;

/// Callback for a program's output, in chunks of any size. Must return quickly, because it blocks the program.
#[derive(Clone)]
pub struct OutputListener(Arc<OutputCallback>);

impl OutputListener {
    pub fn new(callback: impl Fn(OutputStream, &[u8]) + Send + Sync + 'static) -> Self {
        Self(Arc::new(callback))
    }

    pub(crate) fn handle_output(&self, stream: OutputStream, bytes: &[u8]) {
        (self.0)(stream, bytes);
    }
}

impl fmt::Debug for OutputListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandOutput {
    /// Exit code; 128 + signal if ended by a signal.
    pub code: i32,
    /// Standard output and standard error interleaved in order of arrival.
    pub combined: Vec<u8>,
    /// Standard output alone.
    pub stdout: Vec<u8>,
    /// Whether output was dropped because of the limit.
    pub truncated: bool,
}

impl CommandOutput {
    pub fn new(code: i32, stdout: impl Into<Vec<u8>>) -> Self {
        let stdout = stdout.into();
        Self { code, combined: stdout.clone(), stdout, truncated: false }
    }

    /// Whether the exit code is 0.
    pub fn is_success(&self) -> bool {
        self.code == 0
    }

    /// Standard output as text, invalid bytes replaced.
    pub fn stdout_text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Describes a failure of this command line, with its output.
    pub fn failure_text(&self, command_line: &str) -> String {
        format!("`{command_line}` ended with code {}: {}", self.code, self.combined_text().trim())
    }

    /// Describes a failure of this command line as Puppet does.
    pub fn execution_text(&self, command_line: &str) -> String {
        let (code, text) = (self.code, self.combined_text());
        format!("Execution of '{command_line}' returned {code}: {}", text.trim())
    }

    /// The combined output as text, invalid bytes replaced.
    pub fn combined_text(&self) -> String {
        String::from_utf8_lossy(&self.combined).into_owned()
    }
}

/// A cancel flag, set by the caller and polled by the worker.
#[derive(Debug, Clone, Default)]
pub struct CancelFlag(Arc<AtomicBool>);

impl CancelFlag {
    /// Sets the flag permanently.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
