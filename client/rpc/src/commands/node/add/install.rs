//! Probes and installs machines over ssh, several at once. Prints a line for each that fails.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;

use futures_util::{StreamExt as _, stream};
use muster_base::error_chain;
use muster_display::printer::GOOD;
use muster_organisation::machines::host::RemoteHost;
use muster_organisation::machines::source::{ChosenProgram, ProgramSource};
use muster_wire::identity::Identity;

use crate::commands::node::add::args::NodeAddArgs;
use crate::commands::node::add::error::NodeAddError;
use crate::session::context::{CommandContext, Error};
use crate::session::remote_machine::{RemoteMachineError, probe, run_script};
use crate::session::remote_shell::{RemoteShell, SshLoginArgs};

const NODE_PACKAGE: &str = "muster-node";

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
            match probed {
                Ok(machine) if names.insert(machine.name.clone()) => machines.push(machine),
                Ok(machine) => self.report_failure(host, NodeAddError::SameName(machine.name)),
                Err(error) => self.report_failure(host, error),
            }
        }
        machines
    }

    async fn probe(&self, host: &RemoteHost) -> Result<ReadyMachine, NodeAddError> {
        let probe = probe(RemoteShell::Ssh(&host.destination, self.login)).await?;
        let program = self.source.choose(NODE_PACKAGE, &probe)?;
        let named = host.node_name().or(probe.host.filter(|name| name.as_str().contains('.')));
        let name = named.ok_or_else(|| NodeAddError::NoName(host.destination.clone()))?;
        Ok(ReadyMachine { host: host.clone(), name, program })
    }

    /// Installs all machines, each by its script; returns the names of those whose daemon was started.
    pub async fn install_all(&self, machines: Vec<(ReadyMachine, String)>) -> BTreeSet<Identity> {
        let installs = stream::iter(machines).map(async |(machine, script)| {
            let installed = self.install(&machine, &script).await;
            (machine, installed)
        });
        let mut installs = std::pin::pin!(installs.buffer_unordered(self.parallel.get()));
        let mut names = BTreeSet::new();
        while let Some((ReadyMachine { host, name, program }, installed)) = installs.next().await {
            match installed {
                Ok(()) => {
                    let file = program.file.file_name().unwrap_or_default().display();
                    self.cx
                        .printer
                        .print_message(format_args!("{GOOD}installed{GOOD:#} {file} on {name}"));
                    names.insert(name);
                }
                Err(error) => self.report_failure(&host, error),
            }
        }
        names
    }

    async fn install(
        &self,
        machine: &ReadyMachine,
        script: &str,
    ) -> Result<(), RemoteMachineError> {
        let shell = RemoteShell::Ssh(&machine.host.destination, self.login);
        run_script(shell, script, &machine.program).await
    }

    /// Prints why a machine is not added, and what to do.
    pub fn report_failure(&self, host: &RemoteHost, error: impl Into<Error>) {
        let error = error.into();
        self.cx.printer.print_error(format_args!("{}: {}", host.destination, error_chain(&error)));
        error.hints().iter().for_each(|hint| self.cx.printer.print_hint(hint));
    }
}
