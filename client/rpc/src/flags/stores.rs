//! Arguments for the broker's stores.

use clap::Args;
use muster_organisation::{MissingStores, StoreOptions};

/// How the broker's stores are created and updated.
#[derive(Debug, Args)]
pub struct StoreArgs {
    /// Number of servers in a cluster that store each bucket [default: 3 in a cluster of three or more, and never fewer than now]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=5))]
    pub replicas: Option<u8>,
    /// Create missing stores although the broker had them, or servers of the cluster do not answer; what these have of the stores is lost
    #[arg(long)]
    pub create_missing: bool,
}

impl StoreArgs {
    /// The options, with this rule for missing stores unless another one was given.
    pub fn options(&self, missing: MissingStores) -> StoreOptions {
        StoreOptions {
            replicas: self.replicas.map(usize::from),
            missing: if self.create_missing { MissingStores::CreateAll } else { missing },
        }
    }
}
