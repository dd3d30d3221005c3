//! `rpc events`: prints the events of the fleet as they arrive.

pub mod args;
pub mod output;

use muster_client::{EventSelection, EventStart, TargetSelection, follow_events};
use muster_display::json;
use muster_wire::identity::Identity;

use crate::commands::events::args::EventsArgs;
use crate::commands::events::output::{EventLine, render_event};
use crate::flags::named_nodes::NodeNames;
use crate::outcome::error::ResultWriteError;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult, Error};

pub async fn run(args: EventsArgs, cx: CommandContext<'_>) -> CommandResult {
    let count = args.count.map(|count| usize::try_from(count).unwrap_or(usize::MAX));
    let names = args.nodes.iter().flat_map(NodeNames::names);
    let nodes = names.filter_map(|name| Identity::parse(name).ok());
    let selection = EventSelection {
        kinds: args.kinds,
        nodes: nodes.map(|node| cx.complete_node_name(node)).collect(),
        count,
        time: args.timeout,
    };
    let fleet = cx.connect(&TargetSelection::for_collective(None)).await?;
    let print_start = async |start| {
        match start {
            EventStart::Subscribed => cx.printer.print_message("Waiting for events"),
            EventStart::Resumed => cx.printer.print_warning(
                "the connection to the broker was interrupted, or events arrived too fast; some may be missing here",
            ),
        }
        Ok(())
    };
    let events = follow_events::<Error>(&fleet, &selection, print_start, async |event| {
        if args.jsonl {
            let line =
                json::to_safe_line(&EventLine::new(event)).map_err(ResultWriteError::from)?;
            return Ok(cx.printer.print_line(line)?);
        }
        Ok(cx.printer.print_line(render_event(event))?)
    });
    let summary = events.await?;
    cx.warn_of_rejected_messages(("event", "events"), &summary.rejected);
    if summary.closed {
        cx.printer.print_warning("incomplete: the connection to the broker was closed");
    }
    Ok(match count {
        Some(count) if summary.shown < count => CommandExitCode::NoneAnswered,
        _ => CommandExitCode::Passed,
    })
}
