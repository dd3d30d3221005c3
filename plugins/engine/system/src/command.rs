//! A program to run, as a value. Argument arrays only: there is no way to write a shell line here by accident.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What to run and how. The environment is clean: only what is in `env`, besides `PATH`, `LC_ALL=C` and `HOME`.
#[derive(Clone)]
pub struct Command {
    /// Program and arguments. A program without a slash is looked up in `PATH` of `env`, or the standard one.
    pub argv: Vec<String>,
    /// Bytes for standard input; empty means `/dev/null`. Never shown in `Debug`: passwords go this way.
    pub stdin: Vec<u8>,
    /// Additional environment.
    pub env: BTreeMap<String, String>,
    /// Working directory, the node's own path; `/` when absent.
    pub cwd: Option<PathBuf>,
    /// File creation mask.
    pub umask: Option<u32>,
    /// Run as this user (numeric) with its groups.
    pub uid: Option<u32>,
    /// Run with this group (numeric).
    pub gid: Option<u32>,
    /// Longest run; the whole process group gets TERM, then KILL. `None`: no limit.
    pub timeout: Option<Duration>,
    /// Bytes of output that are kept; the rest is read and dropped, and [`CommandOutput::truncated`] says so.
    pub output_limit: usize,
    /// Ends the process group early when it becomes true.
    pub cancel: CancelFlag,
    /// Hears all output as it comes, also what is beyond the limit, and what came before a timeout.
    pub listener: Option<OutputListener>,
}

impl Command {
    /// A command with a clean environment, closed input, 300 s and 1 MiB of output.
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
            cancel: CancelFlag::default(),
            listener: None,
        }
    }

    /// The program, for messages.
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

/// One of a program's two output streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl OutputStream {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

type OutputCallback = dyn Fn(OutputStream, &[u8]) + Send + Sync;

/// Hears a program's output as it comes, in pieces of any size. Must be quick: the program waits for it.
#[derive(Clone)]
pub struct OutputListener(Arc<OutputCallback>);

impl OutputListener {
    /// A listener that does this with each piece.
    pub fn new(hear: impl Fn(OutputStream, &[u8]) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hear))
    }

    /// Something was printed.
    pub(crate) fn handle_output(&self, stream: OutputStream, bytes: &[u8]) {
        (self.0)(stream, bytes);
    }
}

impl fmt::Debug for OutputListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").finish_non_exhaustive()
    }
}

/// What a program left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandOutput {
    /// Exit code; 128 + signal when a signal ended it.
    pub code: i32,
    /// Standard output and standard error as they came, in one stream.
    pub combined: Vec<u8>,
    /// Standard output alone.
    pub stdout: Vec<u8>,
    /// Whether output was dropped because of the limit.
    pub truncated: bool,
}

impl CommandOutput {
    /// What a program leaves that prints `stdout` and ends with `code`.
    pub fn new(code: i32, stdout: impl Into<Vec<u8>>) -> Self {
        let stdout = stdout.into();
        Self {
            code,
            combined: stdout.clone(),
            stdout,
            truncated: false,
        }
    }

    /// Whether the program ended with code 0.
    pub fn is_success(&self) -> bool {
        self.code == 0
    }

    /// The combined output as text, invalid bytes replaced.
    pub fn combined_text(&self) -> String {
        String::from_utf8_lossy(&self.combined).into_owned()
    }
}

/// A flag that the asker can raise and the worker looks at.
#[derive(Debug, Clone, Default)]
pub struct CancelFlag(Arc<AtomicBool>);

impl CancelFlag {
    /// Raises the flag, for good.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether the flag is up.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
