//! Arguments of `rpc tunnel`.

use std::net::SocketAddr;

use clap::Args;
use muster_wire::identity::Identity;

pub const USAGE: &str = "rpc tunnel NODE PORT [OPTIONS]";

pub const AFTER_HELP: &str = "Examples:
  rpc tunnel db1.acme.net 5432                  prints the address to connect to
  rpc tunnel db1.acme.net 5432 --listen 127.0.0.1:15432
  rpc tunnel db1.acme.net 22 --stdio            as ProxyCommand of OpenSSH

Each connection to the printed address is carried through the broker to the port
on 127.0.0.1 of the node, encrypted end to end. The node needs no open port. It
permits the ports of [plugins.tunnel], and its policy decides who may use them.";

/// `rpc tunnel`.
#[derive(Debug, Args)]
pub struct TunnelArgs {
    /// The node
    #[arg(value_name = "NODE", value_parser = parse_node)]
    pub node: Identity,
    /// The port on 127.0.0.1 of the node
    #[arg(value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: u16,
    /// Listen on this address; port 0 is any free port
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:0", conflicts_with = "stdio")]
    pub listen: SocketAddr,
    /// Carry standard input and output instead of listening
    #[arg(long)]
    pub stdio: bool,
}

fn parse_node(text: &str) -> Result<Identity, String> {
    Identity::parse(text).map_err(|error| error.to_string())
}
