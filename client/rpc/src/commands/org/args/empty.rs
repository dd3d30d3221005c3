//! Arguments of `rpc org empty`.

use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use muster_wire::stores::{self, BucketDefinition};

use crate::flags::lifetime;
use crate::flags::org_directory::OrgDirectoryArgs;

/// `rpc org empty`.
#[derive(Debug, Args)]
pub struct OrgEmptyArgs {
    /// The store
    #[arg(ignore_case = true, value_parser = store_parser())]
    pub store: BucketDefinition,
    /// Remove the keys that were written in this time, as 90m or 2d
    #[arg(long, value_name = "DURATION", value_parser = lifetime::parse_lifetime, required_unless_present = "all")]
    pub since: Option<Duration>,
    /// Remove all keys
    #[arg(long, conflicts_with = "since")]
    pub all: bool,
    /// The organisation.
    #[command(flatten)]
    pub organisation: OrgDirectoryArgs,
    /// Do not ask for confirmation
    #[arg(long, short)]
    pub yes: bool,
}

/// Parses the name of a store that services, nodes or callers write.
fn store_parser() -> impl TypedValueParser<Value = BucketDefinition> {
    let stores = stores::ALL_BUCKETS.into_iter().filter(|store| *store != stores::TRUST_BUCKET);
    let values = stores.map(|store| PossibleValue::new(store.name).help(store.description));
    PossibleValuesParser::new(values).try_map(|name| {
        let mut stores = stores::ALL_BUCKETS.into_iter();
        stores.find(|store| store.name.eq_ignore_ascii_case(&name)).ok_or("not a store")
    })
}
