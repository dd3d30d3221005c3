//! `rpc schema`: prints the JSON schemas of other commands' output.

pub mod args;
pub mod published;

use crate::commands::schema::args::SchemaArgs;
use crate::commands::schema::published::PublishedSchema;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult};

pub fn run(
    args: &SchemaArgs,
    documents: &[PublishedSchema],
    cx: CommandContext<'_>,
) -> CommandResult {
    match &args.name {
        Some(name) => {
            let mut found = documents.iter().filter(|schema| schema.name == name);
            if let Some(schema) = found.next() {
                cx.printer.print_text(schema.text)?;
            }
        }
        None => {
            for schema in documents {
                let (name, commands) = (schema.name, schema.commands);
                cx.printer.print_line(format_args!("{name:<26}  {commands}"))?;
            }
        }
    }
    Ok(CommandExitCode::Passed)
}
