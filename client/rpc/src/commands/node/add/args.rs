//! Arguments of `rpc node add`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use muster_organisation::machines::host::RemoteHost;

use crate::flags::org_directory::OrgDirectoryArgs;
use crate::session::remote_shell::SshLoginArgs;

/// Commands of `rpc node`.
#[derive(Debug, Subcommand)]
pub enum NodeCommand {
    /// Make machines nodes of the fleet, over ssh
    #[command(after_help = ADD_HELP)]
    Add(NodeAddArgs),
}

const ADD_HELP: &str = "Examples:
  rpc node add web1.acme.net web2.acme.net --ssh
  rpc node add --ssh --hosts-file machines.txt --parallel 50
  rpc node add db1.acme.net=admin@10.0.0.5 --ssh   the name, and the destination
  rpc node add web1.acme.net --ssh --from ./dist   with the packages of a release
  rpc node add broker.acme.net --ssh --services    directory, schedules, history
  rpc node add web3.acme.net                       prints a line to paste there

A machine needs sshd, a POSIX shell, tar and systemd; the user must be root, or
have sudo without a password. Host keys are verified as by ssh. The machine gets
the package or the program rpcd, credentials of its own, and the files of the
directory `site` of the organisation: policies and settings. Then rpcd is
started, and must answer within a minute. Run the command again for machines
that failed. Needs the directory of the organisation; exits with 2 if a machine
failed.";

/// `rpc node add`.
#[derive(Debug, Args)]
pub struct NodeAddArgs {
    /// Machines: HOST, USER@HOST, or NAME=HOST if the node has another name
    #[arg(value_name = "HOST", required_unless_present = "hosts_file")]
    pub hosts: Vec<RemoteHost>,
    /// File with one machine per line; `-` is standard input; `#` begins a comment
    #[arg(long, value_name = "FILE")]
    pub hosts_file: Option<PathBuf>,
    /// Log in to the machines by OpenSSH, and install everything; without it, a line is printed for root's shell on the machine
    #[arg(long)]
    pub ssh: bool,
    /// Also run the services that keep the directory, schedules and the history
    #[arg(long)]
    pub services: bool,
    /// Directory with the packages muster-node [default: install the program rpcd of this machine]
    #[arg(long, value_name = "DIR", requires = "ssh")]
    pub from: Option<PathBuf>,
    /// Machines at once
    #[arg(long, value_name = "N", default_value = "20")]
    pub parallel: NonZeroUsize,
    /// Login.
    #[command(flatten)]
    pub login: SshLoginArgs,
    /// The organisation.
    #[command(flatten)]
    pub organisation: OrgDirectoryArgs,
}
