//! `rpc schema`: the schemas of what other commands print, as they are published.

use super::context::Context;
use crate::cli::schema::Schema;
use crate::error::Error;
use crate::exit::Exit;
use crate::schemas::PUBLISHED;

/// Runs the command.
pub fn run(args: &Schema, cx: Context<'_>) -> Result<Exit, Error> {
    match &args.name {
        Some(name) => {
            let mut found = PUBLISHED.iter().filter(|schema| schema.name == name);
            if let Some(schema) = found.next() {
                cx.printer.text(schema.text)?;
            }
        }
        None => {
            for schema in &PUBLISHED {
                let (name, of) = (schema.name, schema.of);
                cx.printer.line(format_args!("{name:<26}  {of}"))?;
            }
        }
    }
    Ok(Exit::Passed)
}
