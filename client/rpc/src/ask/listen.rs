//! Waits for replies to requests that other processes sent. Reports progress; renders no results.

use muster_base::unix_millis_now;
use std::time::Duration;

use muster_client::{CallEvent, ClientError, ReplyListener, ReplySelector};
use muster_ddl::{ActionSchema, AgentDdl};
use muster_wire::identity::SubjectName;
use muster_wire::subject::AnswerAddress;
use uuid::Uuid;

use super::collect::{ReportBuilder, ReportUpdate};
use super::error::FleetRequestError;
use super::fleet::FleetConnection;
use super::interrupt::InterruptListener;
use super::rollout::FleetRequestUpdate;
use crate::error::Error;
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

impl FleetConnection {
    /// Returns the address of a mailbox.
    pub fn mailbox_address(&self, name: &str) -> Result<AnswerAddress, FleetRequestError> {
        Ok(self.client.mailbox_address(name)?)
    }

    /// Listens until there are enough replies, the time is up, or the user interrupts. Calls `on_ready` with the subject once the subscription is
    /// active, so that no later reply is missed.
    pub async fn listen_for_replies(
        &self,
        request: ListenRequest<'_>,
        on_ready: impl FnOnce(&str),
        mut show: impl FnMut(FleetRequestUpdate<'_>) -> Result<(), Error>,
    ) -> Result<RequestReport, Error> {
        let ListenRequest { ddl, action, .. } = request;
        let selector = reply_selector(&request).map_err(FleetRequestError::from)?;
        let address = self.mailbox_address(request.mailbox)?;
        let listener = self.client.listen_for_replies(&address, selector).await;
        let mut listener = listener.map_err(FleetRequestError::from)?;
        on_ready(listener.subject());
        let stats = RequestStats {
            expected_replies: request.expect,
            started: unix_millis_now(),
            ..RequestStats::default()
        };
        let mut builder = ReportBuilder::new(ddl.name(), action, 0, stats);
        let mut end_conditions = ListenEndConditions::from_request(&request);
        while builder.stats().expected_replies.is_none() || builder.stats().wants_more() {
            let event = match end_conditions.next_step(&mut listener).await {
                ListenStep::Event(event) => event,
                ListenStep::Timeout => break,
                // Without an expected count, an interrupt is the normal end.
                ListenStep::Interrupted if request.expect.is_none() => break,
                ListenStep::Interrupted => {
                    builder.add_gap(ResultGap::Interrupted);
                    break;
                }
                ListenStep::Closed => {
                    builder.add_gap(ResultGap::Reconnected);
                    break;
                }
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
}

fn reply_selector(request: &ListenRequest<'_>) -> Result<ReplySelector, ClientError> {
    Ok(ReplySelector {
        agent: SubjectName::parse(request.ddl.name())?,
        action: SubjectName::parse(request.action.name())?,
        request: request.request,
    })
}

/// Conditions that end the wait, besides replies.
struct ListenEndConditions {
    interrupt: InterruptListener,
    deadline: Option<tokio::time::Instant>,
}

/// The next step of the wait.
enum ListenStep {
    Event(CallEvent),
    Timeout,
    Interrupted,
    Closed,
}

impl ListenEndConditions {
    fn from_request(request: &ListenRequest<'_>) -> Self {
        Self {
            interrupt: InterruptListener::listen(),
            deadline: request.time.map(|time| tokio::time::Instant::now() + time),
        }
    }

    async fn next_step(&mut self, listener: &mut ReplyListener) -> ListenStep {
        let deadline = self.deadline;
        let timeout = async move {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            event = listener.next() => event.map_or(ListenStep::Closed, ListenStep::Event),
            () = self.interrupt.wait_for_signal() => ListenStep::Interrupted,
            () = timeout => ListenStep::Timeout,
        }
    }
}
