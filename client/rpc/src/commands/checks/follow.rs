//! `rpc checks --follow`: writes the states of all scheduled checks and then each change to a monitoring system.
//!
//! Events wait in a bounded queue while results are delivered. All states are written again when events or results may have been lost: after a lost
//! connection to the broker, and after an outage of the monitoring system. They are also written at an interval: a node that is missing sends no event,
//! and monitoring systems check that results are fresh.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::time::Duration;

use muster_base::{error_chain, unix_millis_now};
use muster_client::{EventSelection, EventStart, FleetConnection, TargetSelection, follow_events};
use muster_contract::nrpe::{
    CHECK_EVENT_PREFIX, CHECK_REMOVED_EVENT, CheckEventData, CheckState, is_check_name,
};
use muster_display::count_text;
use muster_operations::check::{
    DeliveryReport, FleetCheckList, PassiveQueue, PassiveResult, PassiveSink, PassiveSinkError,
    PassiveWork, RefusedResult, describe_refused,
};
use muster_wire::event::FleetEvent;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

use crate::commands::checks::args::CheckListArgs;
use crate::commands::checks::find_checks;
use crate::report::passive_sink::PassiveSinkChoice;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult, Error, Result};

/// Pauses between attempts to reach a monitoring system that is away: the first and the longest one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Most refused services that are remembered, so that each is reported once.
const MAX_REPORTED_SERVICES: usize = 10_000;

/// Delivers what the events bring.
struct CheckFollower<'a> {
    args: &'a CheckListArgs,
    cx: CommandContext<'a>,
    fleet: &'a FleetConnection,
    target: &'a TargetSelection,
    queue: &'a RefCell<PassiveQueue>,
    /// Signals that the queue has work.
    arrival: &'a Notify,
    /// During an outage of the monitoring system, the next pause.
    outage: Option<Duration>,
    /// When all states are due again; `None` until they were written once.
    next_states: Option<Instant>,
    /// Whether the states are due because of the interval.
    is_routine: bool,
    /// If nodes are selected: those of the last states. Events of others are not delivered.
    selected: Option<BTreeSet<String>>,
    /// Services that were reported because they do not take results.
    reported: BTreeSet<RefusedResult>,
}

/// Writes the current states and then each change, until interrupted.
pub async fn follow_checks(args: &CheckListArgs, cx: CommandContext<'_>) -> CommandResult {
    // The command line requires one of the options.
    let sink = PassiveSinkChoice {
        command_file: args.command_file.as_deref(),
        icinga_api: args.icinga_api.as_ref().map(Option::as_deref),
        icinga_ttl: None,
    };
    let Some(sink) = sink.open(cx)? else { return Ok(CommandExitCode::Usage) };
    let target = cx.read_target(&args.filters)?;
    let fleet = cx.connect(&target).await?;
    let selection =
        EventSelection { kinds: vec![CHECK_EVENT_PREFIX.to_owned()], ..EventSelection::default() };
    let (queue, arrival) = (RefCell::new(PassiveQueue::default()), Notify::new());
    // Events from the subscription on are in the queue, and are written after the states.
    let request_states = async |start| -> Result<()> {
        if start == EventStart::Resumed {
            cx.printer.print_warning(
                "the connection to the broker was interrupted, or events arrived too fast; writing all states again",
            );
        }
        queue.borrow_mut().request_states();
        arrival.notify_one();
        Ok(())
    };
    let follow = follow_events::<Error>(&fleet, &selection, request_states, async |event| {
        if let Some(result) = event_result(event) {
            queue.borrow_mut().push(result);
            arrival.notify_one();
        }
        Ok(())
    });
    let follower = CheckFollower {
        args,
        cx,
        fleet: &fleet,
        target: &target,
        queue: &queue,
        arrival: &arrival,
        outage: None,
        next_states: None,
        is_routine: false,
        selected: target.is_filtered().then(BTreeSet::new),
        reported: BTreeSet::new(),
    };
    let summary = tokio::select! {
        summary = follow => summary?,
        failed = follower.run(sink) => match failed? {},
    };
    cx.warn_of_rejected_messages(("event", "events"), &summary.rejected);
    if summary.closed {
        cx.printer.print_warning("incomplete: the connection to the broker was closed");
    }
    Ok(CommandExitCode::from_verdict(!summary.closed))
}

impl CheckFollower<'_> {
    /// Delivers results as they come. Ends with an error that is not temporary.
    async fn run(mut self, mut sink: PassiveSink) -> Result<Infallible> {
        loop {
            if self.next_states.is_some_and(|due| due <= Instant::now()) {
                self.is_routine = true;
                self.queue.borrow_mut().request_states();
            }
            let work = self.queue.borrow_mut().take_work();
            let delivered = match work {
                None => {
                    self.wait_for_work().await;
                    continue;
                }
                Some(PassiveWork::States) => self.deliver_states(&mut sink).await?,
                Some(PassiveWork::Results(mut results)) => {
                    if let Some(selected) = &self.selected {
                        results.retain(|result| selected.contains(&result.host));
                    }
                    let delivered = sink.deliver(results.clone()).await;
                    if delivered.as_ref().is_err_and(PassiveSinkError::is_temporary) {
                        self.queue.borrow_mut().restore(results);
                    }
                    delivered
                }
            };
            match delivered {
                Ok(report) => self.warn_of_refused(report),
                Err(error) if error.is_temporary() => self.await_return(&sink, &error).await?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits for an event, or until all states are due.
    async fn wait_for_work(&self) {
        let due = async {
            match self.next_states {
                Some(due) => sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.arrival.notified() => {}
            () = due => {}
        }
    }

    async fn deliver_states(
        &mut self,
        sink: &mut PassiveSink,
    ) -> Result<Result<DeliveryReport, PassiveSinkError>> {
        let printer = self.cx.printer;
        let is_routine = std::mem::take(&mut self.is_routine);
        let found = find_checks(self.fleet, self.target, self.args, self.cx).await;
        let list = match found {
            Ok((list, _)) => list,
            // Later errors may pass: of the broker, or of the directory.
            Err(error) if self.next_states.is_some() => {
                let problem = error_chain(&error);
                printer.print_warning(format_args!("cannot read the states: {problem}"));
                self.next_states = Some(Instant::now() + LONGEST_PAUSE);
                return Ok(Ok(DeliveryReport::default()));
            }
            Err(error) => return Err(error),
        };
        if let Some(selected) = &mut self.selected {
            *selected = list.checks.iter().map(|check| check.node.to_string()).collect();
        }
        let delivered = sink.deliver(state_results(&list)).await;
        if let Ok(report) = &delivered {
            self.next_states = Some(Instant::now() + self.args.refresh);
            let was_away = self.outage.take().is_some();
            if was_away {
                printer.print_message("The monitoring system answers again.");
            }
            let states = count_text(report.accepted, "state", "states");
            let message = format!("Wrote {states}; waiting for changes");
            if is_routine && !was_away {
                printer.print_detail(message);
            } else {
                printer.print_message(message);
            }
        }
        Ok(delivered)
    }

    /// Waits until the monitoring system answers again. All states are due then. The outage ends when they are delivered.
    async fn await_return(&mut self, sink: &PassiveSink, error: &PassiveSinkError) -> Result<()> {
        if self.outage.is_none() {
            let problem = error_chain(error);
            self.cx.printer.print_warning(format_args!("{problem}; waiting until it answers"));
        }
        loop {
            let pause = self.outage.unwrap_or(FIRST_PAUSE);
            self.outage = Some(LONGEST_PAUSE.min(pause * 2));
            sleep(pause).await;
            match sink.probe().await {
                Ok(()) => break,
                Err(error) if error.is_temporary() => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.queue.borrow_mut().request_states();
        Ok(())
    }

    /// Prints a warning about services that do not take results, once for each.
    fn warn_of_refused(&mut self, report: DeliveryReport) {
        let total = report.accepted + report.refused.len();
        if self.reported.len() > MAX_REPORTED_SERVICES {
            self.reported.clear();
        }
        let mut refused = report.refused;
        refused.sort();
        refused.retain(|one| self.reported.insert(one.clone()));
        if let Some(text) = describe_refused(&refused, total) {
            self.cx.printer.print_warning(text);
        }
    }
}

/// All states that are known.
fn state_results(list: &FleetCheckList) -> Vec<PassiveResult> {
    let results = list.checks.iter().filter_map(|check| {
        let state = check.effective_state()?;
        let output = match (check.node_missing, check.overdue) {
            (true, _) => "the node is missing; its last output: ".to_owned() + &check.output,
            (_, true) => "the check does not run; its last output: ".to_owned() + &check.output,
            _ => check.output.clone(),
        };
        Some(PassiveResult {
            time: unix_millis_now() / 1000,
            host: check.node.to_string(),
            service: check.check.clone(),
            state,
            output,
            perfdata: check.perfdata.clone(),
            long_output: String::new(),
        })
    });
    results.collect()
}

/// The state that an event says. Events of whole nodes and of checks without a state have none.
fn event_result(event: &FleetEvent) -> Option<PassiveResult> {
    let data = Value::Object(event.data.clone());
    let data: CheckEventData = serde_json::from_value(data).unwrap_or_default();
    let (service, state) = (data.check?, data.state?);
    if !is_check_name(&service) || event.kind.as_str() == CHECK_REMOVED_EVENT {
        return None;
    }
    let output =
        if data.output.is_empty() { CheckState::as_str(state).to_owned() } else { data.output };
    Some(PassiveResult {
        time: event.time / 1000,
        host: event.sender.to_string(),
        service,
        state,
        output,
        perfdata: data.perfdata,
        long_output: String::new(),
    })
}
