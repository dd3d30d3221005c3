//! Waits for replies to requests that other processes sent. Shows nothing.

use std::pin::pin;
use std::time::Duration;

use muster_base::unix_millis_now;
use muster_calls::{CallEvent, ClientError, ReplySelector};
use muster_ddl::{ActionSchema, AgentDdl};
use muster_wire::identity::SubjectName;
use uuid::Uuid;

use crate::collect::ReportBuilder;
use crate::error::FleetRequestError;
use crate::fleet::FleetConnection;
use crate::interrupt::{InterruptListener, wait_for_time};
use crate::observer::{RequestEvent, RequestObserver};
use crate::report::{RequestReport, RequestStats, ResultGap};

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

/// Listens until there are enough replies, the time is up, the user interrupts, or the sink is closed. The sink receives the subject once the
/// subscription is active, so that no later reply is missed.
pub async fn listen_for_replies(
    fleet: &FleetConnection,
    request: ListenRequest<'_>,
    sink: &dyn RequestObserver,
) -> Result<RequestReport, FleetRequestError> {
    let ListenRequest { ddl, action, .. } = request;
    let selector = reply_selector(&request)?;
    let address = fleet.client.mailbox_address(request.mailbox)?;
    let mut listener = fleet.client.listen_for_replies(&address, selector).await?;
    sink.observe(RequestEvent::Listening(listener.subject()));
    let stats = RequestStats {
        expected_replies: request.expect,
        started: unix_millis_now(),
        ..RequestStats::default()
    };
    let mut builder = ReportBuilder::new(ddl.name(), action, 0, stats);
    let mut interrupt = InterruptListener::listen();
    // Without a limit, nothing but replies and the user end the wait.
    let mut timeout = pin!(wait_for_time(request.time));
    while !sink.is_closed() && (request.expect.is_none() || builder.stats().wants_more()) {
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
        builder.handle_event(event, sink)?;
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
