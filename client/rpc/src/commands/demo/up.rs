//! `rpc demo up`: creates an organisation, starts its broker and some nodes, and waits until all nodes are ready.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

use muster_base::{format_duration, unix_millis_now};
use muster_bundle::PLUGIN_SIGN_TAG;
use muster_organisation;
use muster_organisation::{
    CredentialSpec, Organisation, OrganisationError, OrganisationSpec, PrincipalKind,
    create_organisation,
};
use muster_secret::files;
use muster_wire::identity::{Identity, NameError, SubjectName};
use muster_wire::token::scope::CallerGrant;
use tokio::time::Instant;

use super::ready::ReadinessListener;
use super::record::DemoRecord;
use super::{DemoError, broker, fleet, node, process, ready, record, virtual_nodes};
use crate::broker_program;
use crate::cli::demo::DemoUpArgs;
use crate::commands::context::{CommandContext, CommandExitCode, CommandResult};
use crate::diagnostics::print_steps;
use crate::environment::{CONFIG, ProcessEnvironment};
use crate::printer::{GOOD, OutputPrinter};

/// Timeout for all nodes together to become ready.
pub const READY_TIMEOUT: Duration = Duration::from_secs(30);
/// Most nodes as separate processes.
const MAX_PROCESS_NODES: u32 = 500;
/// Bytes read from the end of a log.
const MAX_LOG_BYTES: u64 = 1024 * 1024;
/// Lines shown of a failed node's log.
const SHOWN_LOG_LINES: usize = 15;
/// Time for processes to stop after a failed start.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// A demonstration that is being started.
pub struct DemoStart<'a> {
    /// Its directory.
    pub directory: &'a Path,
    daemon: PathBuf,
    record: DemoRecord,
    /// Prints progress.
    pub printer: &'a OutputPrinter,
}

/// A started node that is not ready yet.
pub struct StartingNode {
    /// Its name.
    pub name: Identity,
    /// Its process.
    pub child: Child,
    /// The socket on which it reports.
    pub listener: ReadinessListener,
}

/// Runs the command.
pub async fn run(args: &DemoUpArgs, directory: PathBuf, cx: CommandContext<'_>) -> CommandResult {
    let CommandContext { environment, printer, .. } = cx;
    if !args.in_memory && args.nodes > MAX_PROCESS_NODES {
        let (nodes, maximum) = (args.nodes, MAX_PROCESS_NODES);
        return Err(DemoError::TooMany { nodes, maximum }.into());
    }
    let server = broker_program::find_nats_server(environment)?;
    let daemon = find_daemon(environment)?;
    record::claim_directory(&directory)?;
    let record = DemoRecord::default();
    let mut demo = DemoStart { directory: &directory, daemon, record, printer };
    let started = Instant::now();
    if let Err(error) = demo.start_all(args, &server).await {
        process::stop_processes(&demo.record.nodes_first(), STOP_TIMEOUT).await?;
        return Err(error.into());
    }
    let (nodes, took) = (args.nodes, format_duration(started.elapsed()));
    let kind = if args.in_memory { "virtual nodes" } else { "nodes" };
    printer.print_message(format_args!("{GOOD}up{GOOD:#}: a broker and {nodes} {kind}, in {took}"));
    printer.print_line(format_args!("export {CONFIG}={}", directory.join("rpc.toml").display()))?;
    print_next_steps(args, printer);
    Ok(CommandExitCode::Passed)
}

fn print_next_steps(args: &DemoUpArgs, printer: &OutputPrinter) {
    let directory_option = args.demo.directory.as_ref();
    let directory_option =
        directory_option.map_or_else(String::new, |path| format!(" --dir {}", path.display()));
    printer.print_message("\nRun the line above, then try:");
    let steps = [
        ("rpc ping", "list the nodes that reply"),
        (
            "rpc find -W \"environment=development customer=acme mysql::master\"",
            "list the nodes that match",
        ),
        ("rpc do puppetral type=user name=rip -C mysql::master", "create a user on each of them"),
        (
            &format!("rpc demo down{directory_option}"),
            "stop the demonstration and remove its files",
        ),
    ];
    print_steps(&steps, printer);
}

impl DemoStart<'_> {
    /// Starts all processes. Records each process before waiting for any.
    async fn start_all(&mut self, args: &DemoUpArgs, server: &Path) -> Result<(), DemoError> {
        let directory = self.directory;
        let mut organisation = make_organisation(directory, args.port)?;
        for subdirectory in ["log", "run"] {
            files::create_private_directory(&directory.join(subdirectory))?;
        }
        let mut starting = broker::start_broker(server, &organisation, directory)?;
        let (url, process) = (String::new(), starting.process);
        self.record.broker = Some(record::BrokerProcess { url, process });
        self.record.save(directory)?;
        let broker = starting.await_url(directory).await?;
        organisation.set_urls(vec![broker.url.clone()])?;
        self.printer.print_detail(format_args!("the broker listens on {}", broker.url));
        self.record.broker = Some(broker);

        organisation.declare_stores(1, unix_millis_now()).await?;
        make_user(&organisation, directory)?;
        if args.in_memory {
            return virtual_nodes::run(args.nodes, &organisation, self).await;
        }
        let mut nodes = self.start_nodes(args.nodes, &organisation)?;
        let deadline = Instant::now() + READY_TIMEOUT;
        for node in &mut nodes {
            await_node(node, directory, (deadline, READY_TIMEOUT), |_| {}).await?;
            self.printer.print_detail(format_args!("{} is ready", node.name));
        }
        Ok(())
    }

    fn start_nodes(
        &mut self,
        count: u32,
        organisation: &Organisation,
    ) -> Result<Vec<StartingNode>, DemoError> {
        let lock = organisation.lock()?;
        let nodes = fleet::demo_nodes(usize::try_from(count).unwrap_or(usize::MAX));
        let nodes = nodes.map_err(name_error)?.into_iter().enumerate().map(|(index, node)| {
            let directory = self.directory.join("nodes").join(node.name.as_str());
            let now = unix_millis_now();
            let config = node::make_node(organisation, &lock, &directory, &node, now)?;
            self.start_daemon(node.name, &config, (index, None), &[])
        });
        nodes.collect()
    }

    /// Starts a daemon, which reports on a socket with this index, and records its process and the number of its virtual nodes.
    pub fn start_daemon(
        &mut self,
        name: Identity,
        config: &Path,
        (index, virtual_count): (usize, Option<u32>),
        arguments: &[&OsStr],
    ) -> Result<StartingNode, DemoError> {
        // The path of a Unix socket is limited to 107 bytes, so the index is used instead of the name.
        let listener = ReadinessListener::new(self.directory.join(format!("run/{index}")))?;
        let arguments = [&["--config".as_ref(), config.as_os_str()], arguments].concat();
        let environment = [(ready::NOTIFY_SOCKET_VARIABLE, listener.path().as_os_str())];
        let log = log_path(self.directory, &name);
        let (child, process) =
            process::start_process(&self.daemon, &arguments, &environment, &log)?;
        let recorded = record::NodeProcess { name: name.to_string(), virtual_count, process };
        self.record.nodes.push(recorded);
        self.record.save(self.directory)?;
        Ok(StartingNode { name, child, listener })
    }
}

/// The error of a name that is not valid in a subject.
#[expect(clippy::needless_pass_by_value, reason = "the signature that map_err needs")]
pub fn name_error(error: NameError) -> OrganisationError {
    OrganisationError::Name(error.to_string())
}

fn make_organisation(directory: &Path, port: u16) -> Result<Organisation, DemoError> {
    let spec = OrganisationSpec {
        directory: directory.join("org"),
        name: Some("demo".to_owned()),
        collectives: vec![SubjectName::parse("muster").map_err(name_error)?],
        hosts: Vec::new(),
        port: if port == 0 { -1 } else { i32::from(port) },
        tls: true,
    };
    Ok(create_organisation(spec, unix_millis_now())?)
}

/// Creates the user, with its configuration in the top directory.
fn make_user(organisation: &Organisation, directory: &Path) -> Result<(), DemoError> {
    let spec = CredentialSpec {
        kind: PrincipalKind::User,
        name: Identity::parse(fleet::DEMO_USER).map_err(name_error)?,
        tags: vec![CallerGrant::Everything.to_tag(), PLUGIN_SIGN_TAG.to_owned()],
        expires: Some(node::CREDENTIAL_LIFETIME),
        renew: false,
        out: None,
    };
    let lock = organisation.lock()?;
    let issued = organisation.issue_credentials(&lock, &spec, unix_millis_now())?;
    Ok(organisation.bundle_user(directory, &issued.creds)?)
}

/// Waits until the node is ready, and calls `report_status` with each of its status messages. `timeout` is the time until the deadline, for
/// the error.
pub async fn await_node(
    StartingNode { name, child, listener }: &mut StartingNode,
    directory: &Path,
    (deadline, timeout): (Instant, Duration),
    report_status: impl FnMut(&str),
) -> Result<(), DemoError> {
    let mut exit_status = None;
    let has_exited = || {
        exit_status = child.try_wait().ok().flatten();
        exit_status.is_some()
    };
    if listener.await_ready(deadline, has_exited, report_status).await {
        return Ok(());
    }
    let log_tail = log_tail(&log_path(directory, name));
    let name = name.to_string();
    Err(match exit_status {
        Some(status) => DemoError::Ended { name, status, log_tail },
        None => DemoError::NotReady { name, timeout, log_tail },
    })
}

/// Path of a node's log.
fn log_path(directory: &Path, name: &Identity) -> PathBuf {
    directory.join("log").join(format!("{name}.log"))
}

/// The last lines of a log, indented.
pub fn log_tail(path: &Path) -> String {
    let text = files::read_text(path, MAX_LOG_BYTES).unwrap_or_else(|error| error.to_string());
    let lines: Vec<&str> = text.lines().collect();
    let tail = lines.iter().skip(lines.len().saturating_sub(SHOWN_LOG_LINES));
    tail.map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

/// Finds the rpcd program: from the environment variable, beside this program, or the first in `PATH`.
fn find_daemon(environment: &ProcessEnvironment) -> Result<PathBuf, DemoError> {
    if let Some(path) = &environment.rpcd {
        let is_file = path.is_file().then(|| path.clone());
        return is_file.ok_or_else(|| DemoError::InvalidDaemonPath(path.clone()));
    }
    let sibling = std::env::current_exe().ok().map(|executable| executable.with_file_name("rpcd"));
    sibling
        .filter(|path| path.is_file())
        .or_else(|| environment.find_program("rpcd"))
        .ok_or(DemoError::NoDaemon)
}
