//! The argument of most commands of `rpc org`: the directory of the organisation.

use std::path::PathBuf;

use clap::Args;

const ORG_DIRECTORY_HELP: &str = "Directory of the organisation [env: MUSTER_ORG; else the current directory, if it is one, or ~/.config/muster/organisation]";

/// The organisation.
#[derive(Debug, Clone, Default, Args)]
pub struct OrgDirectoryArgs {
    /// The directory.
    #[arg(long, value_name = "DIR", help = ORG_DIRECTORY_HELP)]
    pub org: Option<PathBuf>,
}

/// The organisation, and whether a document is printed.
#[derive(Debug, Args)]
pub struct OrgDocumentArgs {
    /// The organisation.
    #[command(flatten)]
    pub organisation: OrgDirectoryArgs,
    /// Print one JSON document
    #[arg(long, short)]
    pub json: bool,
}
