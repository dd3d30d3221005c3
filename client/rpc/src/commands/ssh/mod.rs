//! `rpc ssh`, `rpc scp` and `rpc sftp`: OpenSSH to nodes that match a filter.

pub mod args;
mod many;
mod menu;

use std::collections::BTreeSet;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use muster_base::error_chain;
use muster_calls::RolloutLimits;
use muster_client::{FleetConnection, replace_cache_file};
use muster_display::shell_word;
use muster_files::files::FileAccessError;
use muster_operations::ssh::{
    SshArgumentError, SshIdentity, SshNode, SshNodeError, SshOptions, SshProgram, SshProxy,
    SshProxyOptions, SshTarget, config_text, prepare_ssh_identity, program_arguments,
    read_host_key_owners, read_ssh_node,
};
use muster_wire::identity::Identity;

use crate::commands::ssh::args::{BusPort, SshArgs, SshTargetArgs};
use crate::report::progress::MessagePrinter;
use crate::report::rollout_preview::RolloutPreview;
use crate::session::context::{
    CommandContext, CommandError, CommandExitCode, CommandResult, Result,
};
use crate::session::terminal::is_terminal;

/// Records that are read at once.
const CONCURRENT_READS: usize = 16;

/// Why OpenSSH was not started.
#[derive(Debug, thiserror::Error)]
pub enum SshCommandError {
    #[error(transparent)]
    Arguments(#[from] SshArgumentError),
    #[error(
        "there is no directory for host keys: set HOME or XDG_CACHE_HOME, or pass --own-host-keys"
    )]
    NoCache,
    #[error("cannot write the file of host keys")]
    File(#[source] FileAccessError),
    #[error("cannot find the path of rpc or of its configuration")]
    Program(#[source] io::Error),
    #[error("cannot show the menu")]
    Menu(#[source] io::Error),
    #[error("cannot run {program}; is OpenSSH's client installed?")]
    Start { program: &'static str, source: io::Error },
}

impl CommandError for SshCommandError {
    fn exit_code(&self) -> CommandExitCode {
        match self {
            Self::Arguments(SshArgumentError::NoRemotePath) => CommandExitCode::Usage,
            _ => CommandExitCode::Local,
        }
    }
}

/// A connection, and where host keys are written.
struct SshSession<'a> {
    fleet: FleetConnection,
    args: &'a SshTargetArgs,
    directory: Option<PathBuf>,
    identity: Option<SshIdentity>,
    cx: CommandContext<'a>,
}

/// Nodes with usable records, and why others have none.
#[derive(Default)]
struct ReadNodes {
    nodes: Vec<SshNode>,
    refused: Vec<SshNodeError>,
}

pub async fn run(args: SshArgs, cx: CommandContext<'_>) -> CommandResult {
    let (session, nodes) = SshSession::start(&args.target, cx).await?;
    if nodes.is_empty() {
        return Ok(CommandExitCode::Local);
    }
    if !args.ssh_config && !args.all {
        return session.connect(SshProgram::Ssh, &nodes).await;
    }
    let (targets, skipped) = session.prepare_all(&nodes).await?;
    if args.ssh_config {
        let text = config_text(&targets).map_err(SshCommandError::from)?;
        cx.printer.print_text(text)?;
    } else if args.target.print {
        targets.iter().try_for_each(|target| session.print(SshProgram::Ssh, target))?;
    } else {
        let arguments = &args.target.arguments;
        let found: BTreeSet<Identity> = nodes.iter().cloned().collect();
        let command = arguments.join(" ");
        let (limits, pause) = (RolloutLimits::default(), Duration::ZERO);
        let preview = RolloutPreview { request: ("ssh", &command), nodes: &found, limits, pause };
        let conditions = (false, nodes.len(), args.yes);
        cx.confirm_request(conditions, || preview.render_text()).await?;
        return many::run_on_all(&targets, skipped, arguments, args.parallel, cx).await;
    }
    Ok(CommandExitCode::from_verdict(skipped == 0))
}

/// Runs `rpc scp` and `rpc sftp`.
pub async fn run_transfer(
    program: SshProgram,
    args: SshTargetArgs,
    cx: CommandContext<'_>,
) -> CommandResult {
    let (session, nodes) = SshSession::start(&args, cx).await?;
    if nodes.is_empty() {
        return Ok(CommandExitCode::Local);
    }
    session.connect(program, &nodes).await
}

impl<'a> SshSession<'a> {
    /// Finds the nodes. Nodes that are missing are among them: their sshd may run.
    async fn start(
        args: &'a SshTargetArgs,
        cx: CommandContext<'a>,
    ) -> Result<(Self, Vec<Identity>)> {
        let mut filters = args.filters.clone();
        args.named.add_to(&mut filters);
        let target = cx.read_target(&filters)?;
        let settings = cx.load_settings()?;
        let fleet = cx.connect(&target).await?;
        let found = fleet.locate(&target, &MessagePrinter(cx.printer)).await?;
        cx.remember_discovered(&target, &found.nodes);
        if found.nodes.is_empty() {
            let looked_for = target.filter.explain();
            cx.printer.print_error(format_args!("no nodes matched; looked for {looked_for}"));
            cx.suggest_names(&target);
        }
        let caches = settings.fleet_cache_directory();
        let directory = caches.as_ref().map(|caches| caches.join("ssh"));
        let wants_certificate = !args.own_keys && (args.certificate || settings.ssh_certificates);
        let identity = if wants_certificate && !found.nodes.is_empty() {
            let caches = caches.ok_or(SshCommandError::NoCache)?;
            Some(prepare_ssh_identity(&fleet, &caches.join("ssh-identity")).await?)
        } else {
            None
        };
        let session = Self { fleet, args, directory, identity, cx };
        Ok((session, found.nodes.into_iter().collect()))
    }

    /// Connects to the only node, or to the one that the user chooses. Returns only if nothing was started.
    async fn connect(&self, program: SshProgram, nodes: &[Identity]) -> CommandResult {
        let printer = self.cx.printer;
        let node = match nodes {
            [node] => node,
            _ if is_terminal() => match menu::choose_node(nodes).map_err(SshCommandError::Menu)? {
                Some(node) => node,
                None => return Ok(CommandExitCode::Local),
            },
            _ => {
                for node in nodes {
                    printer.print_line(node)?;
                }
                printer.print_error(format_args!(
                    "{} nodes match, and there is no terminal for the menu; add conditions",
                    nodes.len()
                ));
                return Ok(CommandExitCode::SomeFailed);
            }
        };
        let mut read = self.read_nodes(std::slice::from_ref(node)).await?;
        if let Some(error) = read.refused.pop() {
            return Err(error.into());
        }
        let Some(found) = read.nodes.pop() else { return Ok(CommandExitCode::Local) };
        let target = self.prepare(found)?;
        if self.args.print {
            self.print(program, &target)?;
            return Ok(CommandExitCode::Passed);
        }
        let arguments = program_arguments(program, &target, &self.args.arguments)
            .map_err(SshCommandError::from)?;
        printer.print_message(format_args!("Running: {} {node}", program.name()));
        Err(replace_process(program, &arguments).into())
    }

    fn print(&self, program: SshProgram, target: &SshTarget) -> Result<()> {
        let arguments = program_arguments(program, target, &self.args.arguments)
            .map_err(SshCommandError::from)?;
        let words = arguments.iter().map(|argument| shell_word(argument));
        let line = std::iter::once(program.name().to_owned()).chain(words).collect::<Vec<_>>();
        Ok(self.cx.printer.print_line(line.join(" "))?)
    }

    /// The targets, and the number of nodes that were skipped. The reason of each is printed.
    async fn prepare_all(&self, nodes: &[Identity]) -> Result<(Vec<SshTarget>, usize)> {
        let read = self.read_nodes(nodes).await?;
        for error in &read.refused {
            let reason = error_chain(error);
            self.cx.printer.print_error(format_args!("skipped: {reason}"));
        }
        let targets = read.nodes.into_iter().map(|node| self.prepare(node));
        Ok((targets.collect::<Result<_>>()?, read.refused.len()))
    }

    /// Reads the records of nodes, and who else publishes their host keys.
    async fn read_nodes(&self, nodes: &[Identity]) -> Result<ReadNodes> {
        let options = SshOptions {
            address_fact: self.args.address_fact.as_deref(),
            without_keys: self.args.own_host_keys,
        };
        let mut read = ReadNodes::default();
        let reads = stream::iter(nodes).map(|node| read_ssh_node(&self.fleet, node, options));
        let mut reads = reads.buffered(CONCURRENT_READS);
        while let Some(found) = reads.next().await {
            match found {
                Ok(node) => read.nodes.push(node),
                Err(error) if error.is_of_node() => read.refused.push(error),
                Err(error) => return Err(error.into()),
            }
        }
        self.cx.suggest_nodes(read.refused.iter().filter_map(|refused| match refused {
            SshNodeError::Unknown(node) => Some(node),
            _ => None,
        }));
        let owners = read_host_key_owners(&self.fleet, &read.nodes).await?;
        read.nodes.retain(|node| match owners.check_node(node) {
            Ok(()) => true,
            Err(error) => {
                read.refused.push(error.into());
                false
            }
        });
        Ok(read)
    }

    /// Writes the host keys of a node to a file of its own, so that commands for several nodes do not disturb each other.
    fn prepare(&self, found: SshNode) -> Result<SshTarget> {
        let node = &found.node;
        let proxy = self.prepare_proxy(node)?;
        if found.host_keys.is_empty() {
            if !self.args.own_host_keys {
                self.cx.printer.print_warning(format_args!(
                    "the directory gave no ssh host keys of {node}; OpenSSH checks its own files"
                ));
            }
            return Ok(found.into_target(None, proxy, self.identity.clone()));
        }
        let directory = self.directory.as_ref().ok_or(SshCommandError::NoCache)?;
        let path = directory.join(node.as_str());
        replace_cache_file(&path, found.known_hosts_text().as_bytes())
            .map_err(SshCommandError::File)?;
        Ok(found.into_target(Some(path), proxy, self.identity.clone()))
    }

    /// The command for `--via`, with the options that select the configuration.
    fn prepare_proxy(&self, node: &Identity) -> Result<Option<SshProxy>> {
        let Some(BusPort(port)) = self.args.via else { return Ok(None) };
        let program = std::env::current_exe().map_err(SshCommandError::Program)?;
        let config = self.cx.config.map(std::path::absolute).transpose();
        let config = config.map_err(SshCommandError::Program)?;
        let options = SshProxyOptions { config: config.as_deref(), context: self.cx.context };
        let proxy = SshProxy::for_node(&program, options, node, port);
        Ok(Some(proxy.map_err(SshCommandError::from)?))
    }
}

/// Replaces this process, so that signals, terminal and exit code are those of OpenSSH. Returns only if that fails.
#[expect(clippy::disallowed_types, reason = "replaces this process; starts no other process")]
fn replace_process(program: SshProgram, arguments: &[String]) -> SshCommandError {
    let program = program.name();
    let source = std::process::Command::new(program).args(arguments).exec();
    SshCommandError::Start { program, source }
}
