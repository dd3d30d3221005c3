//! Arguments of `rpc org ssh-ca ...`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use muster_wire::identity::Identity;

use crate::flags::lifetime;
use crate::flags::org_directory::OrgDirectoryArgs;

/// `rpc org ssh-ca ...`.
#[derive(Debug, Subcommand)]
pub enum OrgSshCaCommand {
    /// Create the authority, and push the account token that lists it; nodes with `[plugins.ssh] logins` then trust it
    #[command(after_help = "Examples:
  rpc org ssh-ca create

The key is keys/ssh-ca.nk in the directory of the organisation. A service that
signs for users (agent ssh_ca) needs a copy.")]
    Create(OrgDirectoryArgs),
    /// Print the trusted public keys, one a line, as sshd reads them
    #[command(after_help = "Examples:
  rpc org ssh-ca show")]
    Show(OrgDirectoryArgs),
    /// Sign a certificate for a user with valid credentials, without the broker
    #[command(after_help = "Examples:
  rpc org ssh-ca sign rip --key id_ed25519.pub > id_ed25519-cert.pub
  rpc org ssh-ca sign rip --key id_ed25519.pub --lifetime 8h")]
    Sign(OrgSshCaSignArgs),
}

/// `rpc org ssh-ca sign`.
#[derive(Debug, Args)]
pub struct OrgSshCaSignArgs {
    /// Name of the user
    pub name: Identity,
    /// The organisation.
    #[command(flatten)]
    pub organisation: OrgDirectoryArgs,
    /// The user's public key, an ed25519 key of OpenSSH
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,
    /// How long the certificate is valid, for example 8h; never longer than the user's credentials
    #[arg(long, value_name = "TIME", default_value = "8h", value_parser = lifetime::parse_lifetime)]
    pub lifetime: Duration,
    /// Permit forwarded ports
    #[arg(long)]
    pub port_forwarding: bool,
    /// Permit a forwarded ssh-agent
    #[arg(long)]
    pub agent_forwarding: bool,
}
