//! `rpc audit show`: the records of log files, those that are wanted. It believes the files; `verify` does not.

use serde_json::{Map, Value};

use super::Context;
use super::lines::{self, Part};
use crate::cli::audit::Show;
use crate::error::Error;
use crate::exit::Exit;
use crate::printer::OutputError;
use crate::render::audit::record;

/// Shows.
pub(super) fn run(args: &Show, cx: Context<'_>) -> Result<Exit, Error> {
    let (mut unread, mut printed) = (0_u64, Ok(()));
    for file in &args.files {
        lines::each(file, |part| {
            let (Part::Line(line) | Part::Torn(line)) = part;
            match serde_json::from_slice::<Map<String, Value>>(line) {
                Ok(fields) if printed.is_ok() && is_wanted(args, &fields) => {
                    printed = print(args, line, &fields, cx);
                }
                Ok(_) => {}
                Err(_) => unread += 1,
            }
        })?;
    }
    printed?;
    if unread > 0 {
        let hint = "`rpc audit verify` tells more";
        cx.printer
            .warn(format_args!("{unread} lines cannot be read; {hint}"));
    }
    Ok(Exit::Passed)
}

fn print(
    args: &Show,
    line: &[u8],
    fields: &Map<String, Value>,
    cx: Context<'_>,
) -> Result<(), OutputError> {
    if args.json {
        cx.printer.line(String::from_utf8_lossy(line))
    } else {
        cx.printer.text(record(fields))
    }
}

/// A record, and not one of the chain's own lines, with everything that was asked for.
fn is_wanted(args: &Show, fields: &Map<String, Value>) -> bool {
    let has = |field: &str, wanted: Option<&str>| {
        wanted.is_none_or(|wanted| fields.get(field).and_then(Value::as_str) == Some(wanted))
    };
    !fields.contains_key("audit")
        && has("caller", args.caller.as_ref().map(AsRef::as_ref))
        && has("agent", args.agent.as_ref().map(AsRef::as_ref))
        && has(
            "verdict",
            args.verdict.map(crate::cli::audit::Verdict::word),
        )
}
