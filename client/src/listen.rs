//! Waits for replies to requests that other processes sent. Shows nothing.

use std::pin::pin;
use std::time::Duration;

use muster_base::unix_millis_now;
use muster_calls::{CallEvent, ClientError, ReplySelector};
use muster_ddl::{ActionSchema, AgentDdl};
use muster_wire::identity::SubjectName;
use uuid::Uuid;

use crate::collect::{ReportBuilder, ReportUpdate};
use crate::error::FleetRequestError;
use crate::fleet::FleetConnection;
use crate::interrupt::{InterruptListener, wait_for_time};
use crate::report::{RequestReport, RequestStats, ResultGap};
use crate::rollout::FleetRequestUpdate;

/// Which replies to wait for, and how long.
#[derive(Debug)]
pub struct ListenRequest<'a> {
    /// A mailbox name, or one of the caller's own addresses.
    pub mailbox: &'a str,
    /// The agent of the request.
    pub ddl: &'a AgentDdl,
    /// The action of the request.
    pub action: &'a ActionSchema,
    /// The id of the request; any when absent.
    pub request: Option<Uuid>,
    /// Stop after this many replies.
    pub expect: Option<usize>,
    /// Stop after this time.
    pub time: Option<Duration>,
}

/// Listens until there are enough replies, the time is up, or the user interrupts. Calls `on_ready` with the subject once the subscription is
/// active, so that no later reply is missed.
pub async fn listen_for_replies<E: From<FleetRequestError>>(
    fleet: &FleetConnection,
    request: ListenRequest<'_>,
    on_ready: impl FnOnce(&str),
    mut show: impl FnMut(FleetRequestUpdate<'_>) -> Result<(), E>,
) -> Result<RequestReport, E> {
    let ListenRequest { ddl, action, .. } = request;
    let selector = reply_selector(&request).map_err(FleetRequestError::from)?;
    let address = fleet.client.mailbox_address(request.mailbox);
    let address = address.map_err(FleetRequestError::from)?;
    let listener = fleet.client.listen_for_replies(&address, selector).await;
    let mut listener = listener.map_err(FleetRequestError::from)?;
    on_ready(listener.subject());
    let stats = RequestStats {
        expected_replies: request.expect,
        started: unix_millis_now(),
        ..RequestStats::default()
    };
    let mut builder = ReportBuilder::new(ddl.name(), action, 0, stats);
    let mut interrupt = InterruptListener::listen();
    // Without a limit, nothing but replies and the user end the wait.
    let mut timeout = pin!(wait_for_time(request.time));
    while builder.stats().expected_replies.is_none() || builder.stats().wants_more() {
        let event = tokio::select! {
            event = listener.next() => event,
            () = interrupt.wait_for_signal() => {
                // Without an expected count, an interrupt is the normal end.
                if request.expect.is_some() {
                    builder.add_gap(ResultGap::Interrupted);
                }
                break;
            }
            () = &mut timeout => break,
        };
        let Some(event) = event else {
            builder.add_gap(ResultGap::Reconnected);
            break;
        };
        if let CallEvent::Reply(answer) = &event {
            builder.note_request(answer.reply.request);
        }
        match builder.handle_event(event).map_err(FleetRequestError::from)? {
            ReportUpdate::Reply(reply) => show(FleetRequestUpdate::Reply(reply))?,
            ReportUpdate::Progress(update) => show(FleetRequestUpdate::Progress(&update))?,
            ReportUpdate::Sent(_) | ReportUpdate::Finished | ReportUpdate::Nothing => {}
        }
    }
    if let Some(disturbance) = listener.disturbance() {
        builder.add_gap(disturbance.into());
    }
    let mut report = builder.into_report([].into());
    // The target nodes are unknown here: count those that replied, and the expected number.
    let stats = &mut report.stats;
    stats.discovered = stats.response_count().max(request.expect.unwrap_or(0));
    Ok(report)
}

fn reply_selector(request: &ListenRequest<'_>) -> Result<ReplySelector, ClientError> {
    Ok(ReplySelector {
        agent: SubjectName::parse(request.ddl.name())?,
        action: SubjectName::parse(request.action.name())?,
        request: request.request,
    })
}
