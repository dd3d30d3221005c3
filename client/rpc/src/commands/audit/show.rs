//! `rpc audit show`: prints the records of log files that match the filters. Does not verify the files; `verify` does.

use muster_display::count_text;
use muster_display::json::escape_harmful;
use muster_display::printer::PrintError;
use serde_json::{Map, Value};

use crate::commands::audit::args::AuditShowArgs;
use crate::commands::audit::lines::LogFilePart;
use crate::commands::audit::output::render_record;
use crate::commands::audit::{expand_directories, lines};
use crate::flags::values::value_name;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult};

pub(super) fn run(args: &AuditShowArgs, cx: CommandContext<'_>) -> CommandResult {
    let (mut unread, mut printed) = (0, Ok(()));
    for file in &expand_directories(&args.files)? {
        lines::for_each_part(file, |part| {
            let (LogFilePart::Line(line) | LogFilePart::Torn(line)) = part;
            match serde_json::from_slice::<Map<String, Value>>(line) {
                Ok(fields) if printed.is_ok() && matches_filters(args, &fields) => {
                    printed = print_record(args, line, &fields, cx);
                }
                Ok(_) => {}
                Err(_) => unread += 1,
            }
        })?;
    }
    printed?;
    if unread > 0 {
        let lines = count_text(unread, "line", "lines");
        cx.printer.print_warning(format_args!(
            "{lines} cannot be read; run `rpc audit verify` for details"
        ));
    }
    Ok(CommandExitCode::Passed)
}

fn print_record(
    args: &AuditShowArgs,
    line: &[u8],
    fields: &Map<String, Value>,
    cx: CommandContext<'_>,
) -> Result<(), PrintError> {
    if args.json {
        cx.printer.print_line(escape_harmful(String::from_utf8_lossy(line).into_owned()))
    } else {
        cx.printer.print_text(render_record(fields))
    }
}

/// Whether the line is a record, not a line of the chain itself, and matches all filters.
fn matches_filters(args: &AuditShowArgs, fields: &Map<String, Value>) -> bool {
    let field_matches = |field: &str, expected: Option<&str>| {
        expected.is_none_or(|expected| fields.get(field).and_then(Value::as_str) == Some(expected))
    };
    !fields.contains_key("audit")
        && field_matches("caller", args.caller.as_ref().map(AsRef::as_ref))
        && field_matches("agent", args.agent.as_ref().map(AsRef::as_ref))
        && field_matches("verdict", args.verdict.as_ref().map(value_name).as_deref())
}
