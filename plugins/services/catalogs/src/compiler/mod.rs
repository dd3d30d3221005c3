//! Puppet's compiler: a resident process of one environment at one commit, which forks for each compile. Or another program, which is started for each.
//!
//! - `ruby/` beside this folder is the resident one. [`protocol`]: the lines that it and the caller exchange. `sandbox`: what it may access.
//!
//! The program has no credentials and no network, and reads nothing but Puppet, the environment and its own directory. It asks the caller for
//! queries, over the socket of the compile. A program that the administrator names in its place may use the network, and speaks the same lines on its
//! standard input and output.

pub mod protocol;
mod sandbox;

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, chown};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use muster_files::read_prefix;
use muster_host::external::{SandboxHelper, SandboxedProgram};
use muster_host::sandbox::UnixAccount;
use protocol::{
    BegunLine, CompileOutcome, CompileReply, CompileRequest, CompilerLine, QueryAnswer, QueryLine,
};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;

/// A file of the Puppet module that Puppet servers use.
macro_rules! module_file {
    ($path:literal) => {
        include_str!(concat!("../../../../../packaging/puppet/muster/lib/", $path))
    };
}

/// The program's files, and the functions that ask the directory.
const PROGRAM_FILES: [(&str, &str); 9] = [
    ("compiler.rb", include_str!("../../ruby/compiler.rb")),
    ("files.rb", include_str!("../../ruby/files.rb")),
    ("hooks.rb", include_str!("../../ruby/hooks.rb")),
    ("inputs.rb", include_str!("../../ruby/inputs.rb")),
    ("recorder.rb", include_str!("../../ruby/recorder.rb")),
    (
        "modules/muster/lib/puppet/functions/load_node.rb",
        module_file!("puppet/functions/load_node.rb"),
    ),
    (
        "modules/muster/lib/puppet/functions/muster/nodes.rb",
        module_file!("puppet/functions/muster/nodes.rb"),
    ),
    (
        "modules/muster/lib/puppet/functions/search_nodes.rb",
        module_file!("puppet/functions/search_nodes.rb"),
    ),
    (
        "modules/muster/lib/puppet_x/muster/directory.rb",
        module_file!("puppet_x/muster/directory.rb"),
    ),
];
/// What the program wrote to its standard error; a start that failed is explained there.
const LOG_FILE: &str = "compiler.log";
const MAX_SHOWN_LOG_BYTES: u64 = 4096;
/// Largest line from the program: a catalog with its inputs.
const MAX_LINE_BYTES: u64 = 64 * 1024 * 1024;
/// Most queries of one compile.
const MAX_QUERIES: usize = 10_000;

/// Where a compiler runs, and as whom.
#[derive(Debug, Clone)]
pub struct CompilerOptions {
    /// The Ruby that has Puppet.
    pub ruby: PathBuf,
    /// The directory of environments, as Puppet's `environmentpath`; the compiler reads one of them.
    pub environments: PathBuf,
    pub environment: String,
    /// A directory of its own, which the user of the compiler can enter.
    pub state: PathBuf,
    /// The user of the compiler; absent: the caller's.
    pub user: Option<UnixAccount>,
    pub limits: CompileLimits,
    /// A program with its arguments that compiles in place of Ruby, and is started for each compile; empty: none.
    pub program: Vec<String>,
}

/// The limits of one compile.
#[derive(Debug, Clone, Copy)]
pub struct CompileLimits {
    pub cpu_seconds: u64,
    pub memory_bytes: u64,
    /// From the request to the result. The first compile of a process also loads types and functions.
    pub timeout: Duration,
}

impl Default for CompileLimits {
    fn default() -> Self {
        Self { cpu_seconds: 60, memory_bytes: 1024 * 1024 * 1024, timeout: Duration::from_mins(2) }
    }
}

/// Why there is no result. A catalog that does not compile is a result.
#[derive(Debug, thiserror::Error)]
pub enum CompilerError {
    #[error("cannot prepare {}", path.display())]
    Prepare {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot start the compiler of environment {environment}")]
    Start {
        environment: String,
        #[source]
        source: io::Error,
    },
    #[error("cannot send {node} to the compiler")]
    Send {
        node: String,
        #[source]
        source: io::Error,
    },
    /// The process of the compile was killed, by its limit of CPU time or memory, or failed to start.
    #[error(
        "the compile of {node} ended without a result: it exceeded {cpu_seconds} s of CPU time or {memory_mib} MiB, or failed{}",
        shown_log(log)
    )]
    Ended { node: String, cpu_seconds: u64, memory_mib: u64, log: String },
    /// Another compile ended the compiler while this one waited for it.
    #[error("the compiler ended before it began the compile of {node}")]
    NotBegun { node: String },
    #[error("the compile of {node} took longer than {} s", timeout.as_secs())]
    Timeout { node: String, timeout: Duration },
    #[error("the compiler answered the compile of {node} with an invalid line")]
    Invalid {
        node: String,
        #[source]
        source: serde_json::Error,
    },
    #[error("the compile of {node} asked more than {MAX_QUERIES} queries")]
    Queries { node: String },
}

fn shown_log(log: &str) -> String {
    if log.is_empty() { String::new() } else { format!("; it wrote:\n{log}") }
}

/// Answers the queries of manifests, from the directory.
pub trait QuerySource: Sync {
    /// The answer to a query: a path and parameters of the directory's HTTP API, as JSON.
    fn answer(&self, query: &str) -> impl Future<Output = QueryAnswer> + Send;
}

/// A compiler that runs. It and all its compiles are killed on drop.
#[derive(Debug)]
pub struct Compiler {
    process: CompilerProcess,
    options: CompilerOptions,
}

#[derive(Debug)]
enum CompilerProcess {
    /// Forks for each socket that it gets.
    Resident { control: StdUnixStream, has_begun: AtomicBool, _program: SandboxedProgram },
    /// Is started for each compile.
    Single { helper: SandboxHelper },
}

/// The connection of a compile. What was started for it ends with it.
struct CompileConnection {
    stream: BufReader<UnixStream>,
    _program: Option<SandboxedProgram>,
}

impl Compiler {
    /// Starts the compiler of an environment. Whether Puppet is there and the environment can be read is known with the first result.
    pub fn start(options: CompilerOptions, helper: &SandboxHelper) -> Result<Self, CompilerError> {
        prepare_directory(&options)?;
        if !options.program.is_empty() {
            let process = CompilerProcess::Single { helper: helper.clone() };
            return Ok(Self { process, options });
        }
        let path = options.state.join(LOG_FILE);
        let log_file = File::create(&path);
        let log_file = log_file.map_err(|source| CompilerError::Prepare { path, source })?;
        let start =
            |source| CompilerError::Start { environment: options.environment.clone(), source };
        let (control, theirs) = StdUnixStream::pair().map_err(start)?;
        let plan = sandbox::build_plan(&options);
        let program = helper
            .start(&plan, Stdio::from(OwnedFd::from(theirs)), Stdio::null(), log_file.into())
            .map_err(start)?;
        let has_begun = AtomicBool::new(false);
        let process = CompilerProcess::Resident { control, has_begun, _program: program };
        Ok(Self { process, options })
    }

    /// Compiles one node. A compile that takes too long is not ended by this: drop the compiler, and start another.
    pub async fn compile(
        &self,
        request: &CompileRequest<'_>,
        queries: &impl QuerySource,
    ) -> Result<CompileOutcome, CompilerError> {
        let node = || request.node.to_owned();
        let timeout = self.options.limits.timeout;
        let late = |_| CompilerError::Timeout { node: node(), timeout };
        let connection = tokio::time::timeout(timeout, self.connect_for(request)).await;
        let mut connection = match connection.map_err(late).flatten() {
            Err(_) if self.has_begun() => return Err(CompilerError::NotBegun { node: node() }),
            connection => connection?,
        };
        let exchange = self.exchange(&mut connection.stream, request.node, queries);
        tokio::time::timeout(timeout, exchange).await.map_err(late).flatten()
    }

    /// Whether the resident process has begun a compile. One that has not could not be started.
    fn has_begun(&self) -> bool {
        match &self.process {
            CompilerProcess::Resident { has_begun, .. } => has_begun.load(Ordering::Relaxed),
            CompilerProcess::Single { .. } => false,
        }
    }

    /// Sends a node, and waits until the resident process begins its compile: the first one of a process delays the others.
    async fn connect_for(
        &self,
        request: &CompileRequest<'_>,
    ) -> Result<CompileConnection, CompilerError> {
        let node = || request.node.to_owned();
        let send = |source| CompilerError::Send { node: node(), source };
        let invalid = |source| CompilerError::Invalid { node: node(), source };
        let mut connection = self.connect().map_err(send)?;
        let mut line = serde_json::to_vec(request).map_err(invalid)?;
        line.push(b'\n');
        // A program that has ended already does not read; its log says why.
        if connection.stream.write_all(&line).await.is_err() {
            return Err(self.ended(node()));
        }
        if let CompilerProcess::Resident { has_begun, .. } = &self.process {
            line.clear();
            self.read_line(&mut connection.stream, request.node, &mut line).await?;
            serde_json::from_slice::<BegunLine>(&line).map_err(invalid)?;
            has_begun.store(true, Ordering::Relaxed);
        }
        Ok(connection)
    }

    async fn exchange(
        &self,
        stream: &mut BufReader<UnixStream>,
        node: &str,
        queries: &impl QuerySource,
    ) -> Result<CompileOutcome, CompilerError> {
        let send = |source| CompilerError::Send { node: node.to_owned(), source };
        let invalid = |source| CompilerError::Invalid { node: node.to_owned(), source };
        let mut line = Vec::new();
        for _ in 0..=MAX_QUERIES {
            line.clear();
            self.read_line(stream, node, &mut line).await?;
            match serde_json::from_slice(&line).map_err(invalid)? {
                CompilerLine::Query(QueryLine { query }) => {
                    line = serde_json::to_vec(&queries.answer(&query).await).map_err(invalid)?;
                    line.push(b'\n');
                    stream.write_all(&line).await.map_err(send)?;
                }
                CompilerLine::Reply(reply) => return Ok(CompileReply::into_outcome(*reply)),
            }
        }
        Err(CompilerError::Queries { node: node.to_owned() })
    }

    async fn read_line(
        &self,
        stream: &mut BufReader<UnixStream>,
        node: &str,
        line: &mut Vec<u8>,
    ) -> Result<(), CompilerError> {
        let end = stream.take(MAX_LINE_BYTES).read_until(b'\n', line).await;
        if end.is_ok() && line.ends_with(b"\n") { Ok(()) } else { Err(self.ended(node.to_owned())) }
    }

    /// A socket of a compile, whose other end the compiler has.
    fn connect(&self) -> io::Result<CompileConnection> {
        let (ours, theirs) = StdUnixStream::pair()?;
        let program = match &self.process {
            CompilerProcess::Resident { control, .. } => {
                send_socket(control, &theirs)?;
                None
            }
            CompilerProcess::Single { helper } => {
                let log = File::create(self.options.state.join(LOG_FILE))?;
                let plan = sandbox::build_program_plan(&self.options);
                let (stdin, stdout) = (OwnedFd::from(theirs.try_clone()?), OwnedFd::from(theirs));
                Some(helper.start(&plan, stdin.into(), stdout.into(), log.into())?)
            }
        };
        ours.set_nonblocking(true)?;
        let stream = BufReader::new(UnixStream::from_std(ours)?);
        Ok(CompileConnection { stream, _program: program })
    }

    fn ended(&self, node: String) -> CompilerError {
        let CompileLimits { cpu_seconds, memory_bytes, .. } = self.options.limits;
        let log = File::open(self.options.state.join(LOG_FILE));
        let log = log.and_then(|file| read_prefix(file, MAX_SHOWN_LOG_BYTES)).unwrap_or_default();
        let log = String::from_utf8_lossy(&log).trim().to_owned();
        CompilerError::Ended { node, cpu_seconds, memory_mib: memory_bytes / (1024 * 1024), log }
    }
}

fn send_socket(control: &StdUnixStream, socket: &StdUnixStream) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = [socket.as_fd()];
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    sendmsg(control, &[IoSlice::new(b"\0")], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Writes the program's files, which its user can read, and makes the directory that it can write to.
fn prepare_directory(options: &CompilerOptions) -> Result<(), CompilerError> {
    let write = |path: &Path, text: &str| {
        // An earlier process may still read it.
        if fs::read(path).is_ok_and(|written| written == text.as_bytes()) {
            return Ok(());
        }
        let directory = path.parent().unwrap_or(&options.state);
        DirBuilder::new().recursive(true).mode(0o755).create(directory)?;
        fs::write(path, text)?;
        fs::set_permissions(path, Permissions::from_mode(0o644))
    };
    for (name, text) in PROGRAM_FILES {
        let path = options.state.join(name);
        let written = write(&path, text);
        written.map_err(|source| CompilerError::Prepare { path, source })?;
    }
    let path = options.state.join(sandbox::WORK_DIRECTORY);
    let owner = options.user.as_ref().map(|user| (user.uid, user.gid)).unzip();
    let made = fs::create_dir_all(&path).and_then(|()| chown(&path, owner.0, owner.1));
    made.map_err(|source| CompilerError::Prepare { path, source })
}
