//! Arguments of `rpc schema`.

use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::commands::DOCUMENTS;

pub const AFTER_HELP: &str = "Examples:
  rpc schema                       lists all schemas
  rpc schema muster.request.v1     schema of `rpc do -j`
  rpc schema muster.ping.v1 > ping.json

The field `schema` of a document contains the name of its schema.";

/// `rpc schema`.
#[derive(Debug, Args)]
pub struct SchemaArgs {
    /// Name of the schema; without it, all names are listed
    #[arg(value_name = "NAME", value_parser = document_name_parser(), hide_possible_values = true)]
    pub name: Option<String>,
}

fn document_name_parser() -> PossibleValuesParser {
    DOCUMENTS.iter().map(|document| document.name).collect::<Vec<_>>().into()
}
