//! `rpc demo up`: creates an organisation, starts its broker and some nodes, and waits until all nodes are ready.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

use muster_base::{format_duration, unix_millis_now};
use muster_display::printer::{GOOD, OutputPrinter};
use muster_files::files;
use muster_operations::bundle::PLUGIN_SIGN_TAG;
use muster_organisation;
use muster_organisation::{
    CredentialSpec, Organisation, OrganisationSpec, PrincipalKind, StoreOptions,
    create_organisation,
};
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::token::scope::CallerGrant;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::commands::demo::args::DemoUpArgs;
use crate::commands::demo::catalogs::DemoCompiler;
use crate::commands::demo::contexts::GUEST_DIRECTORY;
use crate::commands::demo::error::{DemoError, kind_of_nodes, name_error};
use crate::commands::demo::fleet::DemoNode;
use crate::commands::demo::policies::DemoPolicies;
use crate::commands::demo::process::log_tail;
use crate::commands::demo::ready::ReadinessListener;
use crate::commands::demo::record::DemoRecord;
use crate::commands::demo::steps::DemoKind;
use crate::commands::demo::{
    broker, catalogs, central, contexts, fleet, node, process, ready, record, services, steps,
    virtual_nodes,
};
use crate::session::broker_program;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult};
use crate::session::environment::ProcessEnvironment;

/// As in the daemon's unit: freed blocks are not kept for the thread that freed them.
const ALLOCATOR_SETTING: (&str, &str) = ("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0");

/// Directory of the organisation below that of the demonstration.
pub const ORGANISATION_DIRECTORY: &str = "org";

/// Timeout for all nodes together to become ready.
pub const READY_TIMEOUT: Duration = Duration::from_secs(30);
/// Number of nodes unless the user chooses another one.
const DEFAULT_NODES: u32 = 5;
/// With more nodes, the progress of starting services is printed.
const SILENT_NODES: usize = 25;
/// Most nodes as separate processes.
const MAX_PROCESS_NODES: u32 = 500;
/// Time for processes to stop after a failed start.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

pub struct DemoStart<'a> {
    pub directory: &'a Path,
    pub daemon: PathBuf,
    pub compiler: Option<DemoCompiler>,
    pub record: DemoRecord,
    pub printer: &'a OutputPrinter,
}

pub struct StartingNode {
    pub name: Identity,
    pub child: Child,
    pub listener: ReadinessListener,
}

/// A demonstration that already runs is not changed; its settings are printed again.
pub async fn run(args: &DemoUpArgs, directory: PathBuf, cx: CommandContext<'_>) -> CommandResult {
    let CommandContext { environment, printer, .. } = cx;
    let count = args.nodes.unwrap_or(DEFAULT_NODES);
    if !args.in_memory && count > MAX_PROCESS_NODES {
        let (nodes, maximum) = (count, MAX_PROCESS_NODES);
        return Err(DemoError::TooMany { nodes, maximum }.into());
    }
    if let Some(record) = find_running(&directory)? {
        let (nodes, is_virtual) = check_equal(args, &directory, &record)?;
        let kind = kind_of_nodes(nodes, is_virtual);
        printer.print_message(format_args!(
            "{GOOD}already up{GOOD:#}: a broker and {kind}, in {}",
            directory.display()
        ));
        steps::print_settings(&directory, DemoKind::of(is_virtual, &directory), cx)?;
        return Ok(CommandExitCode::Passed);
    }
    let server = broker_program::find_nats_server(environment)?;
    let daemon = find_daemon(environment)?;
    let compiler = args.catalogs.then(|| DemoCompiler::find(environment)).transpose()?;
    record::claim_directory(&directory)?;
    let record = DemoRecord::default();
    let mut demo = DemoStart { directory: &directory, daemon, compiler, record, printer };
    let kind = kind_of_nodes(usize::try_from(count).unwrap_or(usize::MAX), args.in_memory);
    printer
        .print_message(format_args!("starting a broker and {kind} in {} ...", directory.display()));
    let started = Instant::now();
    if let Err(error) = demo.start_all(args, count, &server).await {
        process::stop_processes(&demo.record.nodes_first(), STOP_TIMEOUT).await?;
        let programs = process::find_root_processes(&record::scratch_roots(&directory));
        process::stop_processes(&programs, STOP_TIMEOUT).await?;
        return Err(error.into());
    }
    contexts::add_contexts(&directory, environment, printer);
    let took = format_duration(started.elapsed());
    printer.print_message(format_args!("{GOOD}up{GOOD:#}: a broker and {kind}, in {took}"));
    steps::print_settings(&directory, DemoKind::of(args.in_memory, &directory), cx)?;
    Ok(CommandExitCode::Passed)
}

/// A demonstration that does not run is an error.
fn find_running(directory: &Path) -> Result<Option<DemoRecord>, DemoError> {
    match DemoRecord::load(directory) {
        Ok(record) if record.is_running() => Ok(Some(record)),
        Ok(_) => Err(DemoError::AlreadyExists(directory.to_owned())),
        Err(DemoError::NotFound(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The kind and number of nodes, if the arguments do not ask for others.
fn check_equal(
    args: &DemoUpArgs,
    directory: &Path,
    record: &DemoRecord,
) -> Result<(usize, bool), DemoError> {
    let (nodes, is_virtual) = record.count_nodes();
    let is_other_count = args.nodes.is_some_and(|count| usize::try_from(count).ok() != Some(nodes));
    if is_other_count || (args.in_memory && !is_virtual) {
        return Err(DemoError::Different { directory: directory.to_owned(), nodes, is_virtual });
    }
    Ok((nodes, is_virtual))
}

impl DemoStart<'_> {
    /// Records each process before waiting for any.
    async fn start_all(
        &mut self,
        args: &DemoUpArgs,
        count: u32,
        server: &Path,
    ) -> Result<(), DemoError> {
        let directory = self.directory;
        let mut organisation = make_organisation(directory, args.port)?;
        for subdirectory in ["log", "run"] {
            files::create_private_directory(&directory.join(subdirectory))?;
        }
        // Before the broker starts: the accounts have space for the stores of the services that were issued credentials.
        let now = unix_millis_now();
        if self.compiler.is_some() {
            DemoCompiler::write_code(directory)?;
        }
        central::issue_credentials(&mut organisation, directory, self.compiler.is_some(), now)?;
        organisation.refresh_scopes(&organisation.lock()?, now)?;
        let mut starting = broker::start_broker(server, &organisation, directory)?;
        let (url, process) = (String::new(), starting.process);
        self.record.broker = Some(record::BrokerProcess { url, process });
        self.record.save(directory)?;
        let broker = starting.await_url(directory).await?;
        organisation.set_urls(vec![broker.url.clone()])?;
        self.printer.print_detail(format_args!("the broker listens on {}", broker.url));
        self.record.broker = Some(broker);

        organisation.declare_stores(StoreOptions::default(), unix_millis_now()).await?;
        // Nodes read when they start that the fleet has a history.
        publish_services(&organisation).await?;
        make_user(&organisation, fleet::DEMO_USER, directory)?;
        make_user(&organisation, fleet::GUEST_USER, &directory.join(GUEST_DIRECTORY))?;
        let total = if args.in_memory {
            let host = fleet::service_host().map_err(name_error)?;
            self.start_machines(&[host], &organisation).await?;
            virtual_nodes::run(count, &organisation, self).await?;
            count + 1
        } else {
            let nodes = fleet::demo_nodes(usize::try_from(count).unwrap_or(usize::MAX));
            self.start_machines(&nodes.map_err(name_error)?, &organisation).await?;
            count
        };
        // The provisioner enrols no machine before it knows the names of all nodes.
        organisation.push_names(&organisation.fleet_trust()?, unix_millis_now()).await?;
        if !services::await_directory(directory, total).await? {
            self.printer.print_warning(
                "the directory does not have all nodes yet: `rpc find` may miss some for a few seconds",
            );
        }
        if self.compiler.is_some() {
            self.printer.print_message("compiling the catalogs of all nodes ...");
            if !catalogs::await_compiles(directory, count).await? {
                self.printer
                    .print_warning("not all nodes are compiled yet; `rpc catalog list` shows why");
            }
        }
        self.record.is_complete = true;
        self.record.save(directory)
    }

    /// Starts nodes with scratch roots, and their services. The last node runs the central services.
    async fn start_machines(
        &mut self,
        nodes: &[DemoNode],
        organisation: &Organisation,
    ) -> Result<(), DemoError> {
        let mut starting = self.start_nodes(nodes, organisation)?;
        let deadline = Instant::now() + READY_TIMEOUT;
        for node in &mut starting {
            await_node(node, self.directory, (deadline, READY_TIMEOUT), |_| {}).await?;
            self.printer.print_detail(format_args!("{} is ready", node.name));
        }
        let mut services: BTreeMap<&'static str, Vec<Identity>> = BTreeMap::new();
        for node in nodes {
            services.entry(node.service).or_default().push(node.name.clone());
        }
        let print_progress = |done: usize| {
            if nodes.len() > SILENT_NODES {
                let total = nodes.len();
                self.printer
                    .print_message(format_args!("services started on {done} of {total} nodes"));
            }
        };
        let failed = services::start_services(self.directory, &services, print_progress).await?;
        if !failed.nodes.is_empty() {
            self.printer.print_warning(format_args!(
                "{} have no running service: {}",
                kind_of_nodes(failed.nodes.len(), false),
                failed.reason
            ));
            self.printer.print_hint(
                "services, packages, `shell` and `exec` need mount namespaces; accounts, files and queries work without",
            );
        }
        Ok(())
    }

    fn start_nodes(
        &mut self,
        nodes: &[DemoNode],
        organisation: &Organisation,
    ) -> Result<Vec<StartingNode>, DemoError> {
        let lock = organisation.lock()?;
        let policies = DemoPolicies::from_schemas()?;
        let last = nodes.len().saturating_sub(1);
        let nodes = nodes.iter().enumerate().map(|(index, node)| {
            let directory = self.directory.join("nodes").join(node.name.as_str());
            let now = unix_millis_now();
            let mut more = self.node_sections();
            if index == last {
                more.extend(central::sections(self.directory));
            }
            if let Some(compiler) = &self.compiler {
                more.insert("release", json!({"enabled": true}));
                if index == last {
                    more.insert("compiler", compiler.section(self.directory));
                }
            }
            let config =
                node::make_node(organisation, &lock, &directory, (node, &policies), more, now)?;
            self.start_daemon(node.name.clone(), &config, None, &[])
        });
        nodes.collect()
    }

    /// The sections of all nodes that depend on this demonstration. Tunnels reach the broker, the only server that each demonstration has.
    pub fn node_sections(&self) -> BTreeMap<&'static str, Value> {
        let port = self.record.broker.as_ref().and_then(record::BrokerProcess::port);
        BTreeMap::from([("tunnel", json!({"enabled": true, "ports": port.as_slice()}))])
    }

    /// Starts a daemon, and records its process and the number of its virtual nodes.
    pub fn start_daemon(
        &mut self,
        name: Identity,
        config: &Path,
        virtual_count: Option<u32>,
        arguments: &[&OsStr],
    ) -> Result<StartingNode, DemoError> {
        // The path of a Unix socket is limited to 107 bytes, so a number is used instead of the name.
        let number = self.record.nodes.len();
        let listener = ReadinessListener::new(self.directory.join(format!("run/{number}")))?;
        let arguments = [&["--config".as_ref(), config.as_os_str()], arguments].concat();
        let socket = (ready::NOTIFY_SOCKET_VARIABLE, listener.path().as_os_str());
        let environment = [socket, (ALLOCATOR_SETTING.0, ALLOCATOR_SETTING.1.as_ref())];
        let log = log_path(self.directory, &name);
        let (child, process) =
            process::start_process(&self.daemon, &arguments, &environment, &log)?;
        let recorded = record::NodeProcess { name: name.to_string(), virtual_count, process };
        self.record.nodes.push(recorded);
        self.record.save(self.directory)?;
        Ok(StartingNode { name, child, listener })
    }
}

/// Publishes an account token that lists the services.
async fn publish_services(organisation: &Organisation) -> Result<(), DemoError> {
    let now = unix_millis_now();
    organisation.refresh_scopes(&organisation.lock()?, now)?;
    organisation.publish_account(now).await?;
    Ok(())
}

fn make_organisation(directory: &Path, port: u16) -> Result<Organisation, DemoError> {
    let spec = OrganisationSpec {
        directory: directory.join(ORGANISATION_DIRECTORY),
        name: Some("demo".to_owned()),
        collectives: vec![SubjectName::parse("muster").map_err(name_error)?],
        hosts: Vec::new(),
        port: if port == 0 { -1 } else { i32::from(port) },
        tls: true,
    };
    Ok(create_organisation(spec, unix_millis_now())?)
}

/// Creates a user, with its configuration in this directory. The broker allows both users everything; the nodes' policies differ.
fn make_user(organisation: &Organisation, name: &str, directory: &Path) -> Result<(), DemoError> {
    let spec = CredentialSpec {
        kind: PrincipalKind::User,
        name: Identity::parse(name).map_err(name_error)?,
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

fn log_path(directory: &Path, name: &Identity) -> PathBuf {
    directory.join("log").join(format!("{name}.log"))
}

pub fn find_daemon(environment: &ProcessEnvironment) -> Result<PathBuf, DemoError> {
    match (environment.find_daemon(), &environment.rpcd) {
        (Some(path), _) => Ok(path),
        (None, Some(named)) => Err(DemoError::InvalidDaemonPath(named.clone())),
        (None, None) => Err(DemoError::NoDaemon),
    }
}
