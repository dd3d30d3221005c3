//! Arguments of `rpc ssh`, `rpc scp` and `rpc sftp`.

use std::num::NonZeroUsize;

use clap::Args;

use crate::flags::filters::FilterArgs;
use crate::flags::named_nodes::NamedNodeArgs;
use crate::flags::values::parse_fact_name;

pub const SSH_USAGE: &str = "rpc ssh [NODE]... [FILTERS] [OPTIONS] [-- SSH ARGUMENTS]";
pub const SCP_USAGE: &str = "rpc scp [NODE]... [FILTERS] [OPTIONS] -- SCP ARGUMENTS";
pub const SFTP_USAGE: &str = "rpc sftp [NODE]... [FILTERS] [OPTIONS] [-- SFTP ARGUMENTS]";

pub const SSH_HELP: &str = "Examples:
  rpc ssh -W \"environment=development customer=acme mysql::master\"
  rpc ssh -I db1.acme.net -- -l root uptime
  rpc ssh db1
  rpc ssh -C apache --all --parallel 8 -- systemctl is-active apache2
  rpc ssh -C apache --address-fact networking.ip --print
  rpc ssh -I db1.acme.net --via bus
  rpc ssh -I db1.acme.net --certificate -- -l deploy
  rpc ssh --ssh-config > ~/.ssh/muster.conf

Several matches open a menu: type a part of a name or a number. Without a
terminal they are listed, and the exit code is 2; it is 1 if no node matches.
OpenSSH gets the host keys that the node has signed, and refuses others.
`Include muster.conf` in ~/.ssh/config uses the printed configuration.";

pub const SCP_HELP: &str = "Examples:
  rpc scp -C mysql::master --address-fact networking.ip -- dump.sql :/tmp/
  rpc scp -I web1.acme.net -- -r :/etc/apache2 .
  rpc scp -I web1.acme.net --via bus -- page.html :/var/www/

A path that begins with a colon is on the node.";

pub const SFTP_HELP: &str = "Examples:
  rpc sftp -I db1.acme.net
  rpc sftp -C mysql::master -- -b commands.txt";

/// The port of sshd on the node, for `--via`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BusPort(pub u16);

/// Which node, and how it is reached. `rpc scp` and `rpc sftp` have no other options.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each field is a separate option")]
pub struct SshTargetArgs {
    /// Nodes as arguments.
    #[command(flatten)]
    pub named: NamedNodeArgs,
    /// The nodes.
    #[command(flatten)]
    pub filters: FilterArgs,
    /// Connect to the address in this fact, as in networking.ip, instead of the name
    #[arg(long, value_name = "FACT", value_parser = parse_fact_name)]
    pub address_fact: Option<String>,
    /// Reach the node through the broker: `bus`, or `bus:PORT` if its sshd has another port than 22
    #[arg(long, value_name = "WAY", value_parser = parse_bus_port, conflicts_with = "address_fact")]
    pub via: Option<BusPort>,
    /// Let OpenSSH check host keys by its own files, not by what the node has signed
    #[arg(long)]
    pub own_host_keys: bool,
    /// Log in with a certificate of the fleet; the default if rpc.toml has `[ssh] certificates = true`
    #[arg(long, conflicts_with = "own_keys")]
    pub certificate: bool,
    /// Let OpenSSH use its own keys, even if rpc.toml has `[ssh] certificates = true`
    #[arg(long)]
    pub own_keys: bool,
    /// Print the command line instead of running it
    #[arg(long)]
    pub print: bool,
    /// Arguments of the program
    #[arg(last = true, value_name = "ARGUMENTS")]
    pub arguments: Vec<String>,
}

/// `rpc ssh`.
#[derive(Debug, Args)]
pub struct SshArgs {
    /// The node.
    #[command(flatten)]
    pub target: SshTargetArgs,
    /// Run the command on all matching nodes, one after the other
    #[arg(long, requires = "arguments")]
    pub all: bool,
    /// Run it on this many nodes at once
    #[arg(long, value_name = "N", default_value = "1", requires = "all")]
    pub parallel: NonZeroUsize,
    /// Do not ask for confirmation before running on many nodes
    #[arg(short, long, requires = "all")]
    pub yes: bool,
    /// Print a configuration for OpenSSH with all matching nodes
    #[arg(long, conflicts_with_all = ["all", "print", "arguments"])]
    pub ssh_config: bool,
}

fn parse_bus_port(text: &str) -> Result<BusPort, &'static str> {
    let port = match text.split_once(':') {
        None if text == "bus" => Some(22),
        Some(("bus", port)) => port.parse().ok().filter(|port| *port > 0),
        _ => None,
    };
    port.map(BusPort).ok_or("write `bus`, or `bus:PORT`")
}
