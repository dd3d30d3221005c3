//! Probes and installs machines over ssh, several at once. Prints a line for each that fails.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Seek as _};
use std::num::NonZeroUsize;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use muster_base::error_chain;
use muster_display::printer::GOOD;
use muster_organisation::machines::host::RemoteHost;
use muster_organisation::machines::payload::{UNPACK_COMMAND, write_payload};
use muster_organisation::machines::probe::{MachineProbe, PROBE_SCRIPT};
use muster_organisation::machines::source::{ChosenProgram, PackageName, ProgramSource};
use muster_wire::identity::Identity;

use crate::commands::node::add::args::NodeAddArgs;
use crate::commands::node::add::error::NodeAddError;
use crate::session::context::{CommandContext, CommandError as _};
use crate::session::remote_shell::{RemoteShell, SshLoginArgs};

const NODE_PACKAGE: PackageName = PackageName("muster-node");
/// How long a machine may take to say what it is.
const PROBE_LIMIT: Duration = Duration::from_mins(1);
/// How long the installation of a machine may take.
const INSTALL_LIMIT: Duration = Duration::from_mins(10);

/// A machine that can become a node.
pub struct ReadyMachine {
    pub host: RemoteHost,
    pub name: Identity,
    pub program: ChosenProgram,
}

pub struct MachineInstaller<'a> {
    source: ProgramSource,
    login: &'a SshLoginArgs,
    parallel: NonZeroUsize,
    cx: CommandContext<'a>,
}

impl<'a> MachineInstaller<'a> {
    pub fn new(args: &'a NodeAddArgs, cx: CommandContext<'a>) -> Self {
        let program = cx.environment.find_daemon();
        let source = ProgramSource { directory: args.from.clone(), program };
        Self { source, login: &args.login, parallel: args.parallel, cx }
    }

    /// Asks all machines what they are; returns those that can become nodes, with different names.
    pub async fn probe_all(&self, hosts: &[RemoteHost]) -> Vec<ReadyMachine> {
        let probes = stream::iter(hosts).map(async |host| (host, self.probe(host).await));
        let mut probes = std::pin::pin!(probes.buffered(self.parallel.get()));
        let (mut names, mut machines) = (BTreeSet::new(), Vec::new());
        while let Some((host, probed)) = probes.next().await {
            let distinct = probed.and_then(|machine| {
                let is_new = names.insert(machine.name.clone());
                is_new.then_some(machine).ok_or_else(|| {
                    NodeAddError::SameName(
                        host.node_name()
                            .unwrap_or_else(|| unreachable!("a probed machine has a name")),
                    )
                })
            });
            match distinct {
                Ok(machine) => machines.push(machine),
                Err(error) => self.report_failure(host, &error),
            }
        }
        machines
    }

    async fn probe(&self, host: &RemoteHost) -> Result<ReadyMachine, NodeAddError> {
        let shell = RemoteShell::Ssh(&host.destination, self.login);
        let output = shell.run(&format!("sh -c '{PROBE_SCRIPT}'"), None, PROBE_LIMIT).await?;
        let probe = MachineProbe::parse(&output)?;
        let program = self.source.choose(NODE_PACKAGE, &probe)?;
        let named = host.node_name().or(probe.host.filter(|name| name.as_str().contains('.')));
        let name = named.ok_or_else(|| NodeAddError::NoName(host.destination.clone()))?;
        Ok(ReadyMachine { host: host.clone(), name, program })
    }

    /// Installs all machines, each by its script; returns the names of those whose daemon was started.
    pub async fn install_all(&self, machines: Vec<(ReadyMachine, String)>) -> Vec<Identity> {
        let installs = stream::iter(machines).map(async |(machine, script)| {
            let installed = self.install(&machine, &script).await;
            (machine, installed)
        });
        let mut installs = std::pin::pin!(installs.buffer_unordered(self.parallel.get()));
        let mut names = Vec::new();
        while let Some((machine, installed)) = installs.next().await {
            match installed {
                Ok(()) => {
                    let file = machine.program.file.file_name().unwrap_or_default();
                    self.cx.printer.print_message(format_args!(
                        "{GOOD}installed{GOOD:#} {} on {}",
                        file.display(),
                        machine.name
                    ));
                    names.push(machine.name);
                }
                Err(error) => self.report_failure(&machine.host, &error),
            }
        }
        names
    }

    async fn install(&self, machine: &ReadyMachine, script: &str) -> Result<(), NodeAddError> {
        let archive =
            create_archive(script, Some(&machine.program)).map_err(NodeAddError::Payload)?;
        let shell = RemoteShell::Ssh(&machine.host.destination, self.login);
        shell.run(UNPACK_COMMAND, Some(archive), INSTALL_LIMIT).await?;
        Ok(())
    }

    fn report_failure(&self, host: &RemoteHost, error: &NodeAddError) {
        self.cx.printer.print_error(format_args!("{}: {}", host.destination, error_chain(error)));
        if let NodeAddError::Shell(error) = error {
            error.hints().iter().for_each(|hint| self.cx.printer.print_hint(hint));
        }
    }
}

/// The archive for a machine, in a file without a name.
pub fn create_archive(script: &str, program: Option<&ChosenProgram>) -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    write_payload(io::BufWriter::new(&mut file), script, program)?;
    file.rewind()?;
    Ok(file)
}
