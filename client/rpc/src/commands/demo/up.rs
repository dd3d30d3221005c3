//! `rpc demo up`: creates an organisation, starts its broker and some nodes, and waits until all nodes are ready.

use muster_base::unix_millis_now;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

use muster_bundle::PLUGIN_SIGN_TAG;
use muster_wire::identity::{Identity, NameError, SubjectName};
use muster_wire::token::scope::CallerGrant;
use tokio::time::Instant;

use super::ready::{self, ReadinessListener};
use super::record::{self, DemoRecord};
use super::{DemoError, broker, fleet, node, process, virtual_nodes};
use crate::broker::program;
use crate::cli::demo::DemoUpArgs;
use crate::commands::context::{CommandContext, CommandExitCode, CommandResult};
use crate::diagnostics::highlight_code;
use crate::environment::{CONFIG, ProcessEnvironment};
use crate::files;
use crate::organisation::{
    self, CredentialSpec, Organisation, OrganisationError, OrganisationSpec, PrincipalKind,
};
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
    let server = program::find_nats_server(environment)?;
    let daemon = find_daemon(environment)?;
    record::claim_directory(&directory)?;
    let mut record = DemoRecord::default();
    let started = Instant::now();
    let result = start_demo(args, &directory, &server, &daemon, &mut record, printer).await;
    if let Err(error) = result {
        process::stop_processes(&record.nodes_first(), STOP_TIMEOUT).await?;
        return Err(error.into());
    }
    let (nodes, seconds) = (args.nodes, started.elapsed().as_secs_f64());
    let kind = if args.in_memory { "virtual nodes" } else { "nodes" };
    printer.print_message(format_args!(
        "{GOOD}up{GOOD:#}: a broker and {nodes} {kind}, in {seconds:.1} s"
    ));
    printer.print_line(format_args!("export {CONFIG}={}", directory.join("rpc.toml").display()))?;
    print_next_steps(args, printer);
    Ok(CommandExitCode::Passed)
}

fn print_next_steps(args: &DemoUpArgs, printer: &OutputPrinter) {
    let directory_option = args.demo.directory.as_ref();
    let directory_option =
        directory_option.map_or_else(String::new, |path| format!(" --dir {}", path.display()));
    printer.print_message("\nRun the line above, then try:");
    for (command, purpose) in [
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
    ] {
        printer.print_message(format_args!("  {}  {purpose}", highlight_code(command)));
    }
}

/// Starts all processes. Records each process before waiting for any.
async fn start_demo(
    args: &DemoUpArgs,
    directory: &Path,
    server: &Path,
    daemon: &Path,
    record: &mut DemoRecord,
    printer: &OutputPrinter,
) -> Result<(), DemoError> {
    let mut organisation = make_organisation(directory, args.port)?;
    for subdirectory in ["log", "run"] {
        files::create_private_directory(&directory.join(subdirectory))?;
    }
    let mut starting = broker::start_broker(server, &organisation, directory)?;
    record.broker = Some(record::BrokerProcess { url: String::new(), process: starting.process });
    record.save(directory)?;
    let broker = starting.await_url(directory).await?;
    organisation.set_urls(vec![broker.url.clone()])?;
    printer.print_detail(format_args!("the broker listens on {}", broker.url));
    record.broker = Some(broker);
    organisation.declare_stores(1, unix_millis_now()).await?;
    make_user(&organisation, directory)?;
    if args.in_memory {
        return virtual_nodes::run(args.nodes, daemon, &organisation, directory, record, printer)
            .await;
    }
    let mut nodes = start_nodes(
        usize::try_from(args.nodes).unwrap_or(usize::MAX),
        daemon,
        &organisation,
        directory,
        record,
    )?;
    let deadline = Instant::now() + READY_TIMEOUT;
    for node in &mut nodes {
        await_node(node, directory, (deadline, READY_TIMEOUT), |_| {}).await?;
        printer.print_detail(format_args!("{} is ready", node.name));
    }
    Ok(())
}

/// The error of a name that is not valid in a subject.
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
    Ok(organisation::create_organisation(spec, unix_millis_now())?)
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

fn start_nodes(
    count: usize,
    daemon: &Path,
    organisation: &Organisation,
    directory: &Path,
    record: &mut DemoRecord,
) -> Result<Vec<StartingNode>, DemoError> {
    let lock = organisation.lock()?;
    let demo_nodes = fleet::demo_nodes(count).map_err(name_error)?;
    let mut nodes = Vec::with_capacity(count);
    for (index, demo_node) in demo_nodes.into_iter().enumerate() {
        let node_directory = directory.join("nodes").join(demo_node.name.as_str());
        let config =
            node::make_node(organisation, &lock, &node_directory, &demo_node, unix_millis_now())?;
        // The path of a Unix socket is limited to 107 bytes, so the index is used instead of the name.
        let listener = ReadinessListener::new(directory.join(format!("run/{index}")))?;
        let (child, process) = process::start_process(
            daemon,
            &["--config".as_ref(), config.as_os_str()],
            &[(ready::NOTIFY_SOCKET_VARIABLE, listener.path().as_os_str())],
            &log_path(directory, &demo_node.name),
        )?;
        record.nodes.push(record::NodeProcess {
            name: demo_node.name.to_string(),
            virtual_count: None,
            process,
        });
        record.save(directory)?;
        nodes.push(StartingNode { name: demo_node.name, child, listener });
    }
    Ok(nodes)
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
pub fn log_path(directory: &Path, name: &Identity) -> PathBuf {
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
