//! Arguments of `rpc org monitor`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::flags::lifetime;
use crate::flags::org_directory::OrgDirectoryArgs;

/// `rpc org monitor`.
#[derive(Debug, Args)]
pub struct OrgMonitorArgs {
    /// The new directory
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// The organisation.
    #[command(flatten)]
    pub organisation: OrgDirectoryArgs,
    /// Validity, as 90d [default: until it is replaced]
    #[arg(long, value_name = "DURATION", value_parser = lifetime::parse_lifetime)]
    pub expires: Option<Duration>,
    /// Sign with a new key, so that all earlier credentials of monitoring systems end
    #[arg(long)]
    pub replace: bool,
}
