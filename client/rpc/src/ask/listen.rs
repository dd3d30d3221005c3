//! Waits for answers to requests that were sent elsewhere. Tells how it goes on; draws no results.

use std::time::Duration;

use muster_client::{CallEvent, ClientError, ReplyListener, ReplySelector};
use muster_ddl::{ActionSchema, AgentDdl};
use muster_wire::identity::SubjectName;
use muster_wire::subject::AnswerAddress;
use uuid::Uuid;

use super::error::FleetRequestError;
use super::fleet::FleetConnection;
use super::gather::{ReportBuilder, ReportUpdate};
use super::interrupt::InterruptListener;
use super::rollout::FleetRequestUpdate;
use crate::clock;
use crate::error::Error;
use crate::report::{RequestReport, RequestStats, ResultGap};

/// What is waited for, and how long.
#[derive(Debug)]
pub struct ListenRequest<'a> {
    /// A name, or an address of the caller's own.
    pub mailbox: &'a str,
    /// The agent that is asked.
    pub ddl: &'a AgentDdl,
    /// The action that is asked.
    pub action: &'a ActionSchema,
    /// The request; any, when absent.
    pub request: Option<Uuid>,
    /// So many answers are enough.
    pub expect: Option<usize>,
    /// So much time is enough.
    pub time: Option<Duration>,
}

impl FleetConnection {
    /// The address that a mailbox's name stands for.
    pub fn mailbox_address(&self, name: &str) -> Result<AnswerAddress, FleetRequestError> {
        Ok(self.client.mailbox_address(name)?)
    }

    /// Listens until enough has come, the time is up, or the user wants no more. `ready` is told the subject once nothing that is
    /// answered there can be missed.
    pub async fn listen_for_replies(
        &self,
        listening: ListenRequest<'_>,
        ready: impl FnOnce(&str),
        mut show: impl FnMut(FleetRequestUpdate<'_>) -> Result<(), Error>,
    ) -> Result<RequestReport, Error> {
        let ListenRequest { ddl, action, .. } = listening;
        let awaited = reply_selector(&listening).map_err(FleetRequestError::from)?;
        let address = self.mailbox_address(listening.mailbox)?;
        let mail = self.client.listen_for_replies(&address, awaited).await;
        let mut mail = mail.map_err(FleetRequestError::from)?;
        ready(mail.subject());
        let stats = RequestStats {
            wanted: listening.expect,
            started: clock::now(),
            ..RequestStats::default()
        };
        let mut gathering = ReportBuilder::new(ddl.name(), action, 0, stats);
        let mut ends = ListenEndConditions::from_request(&listening);
        while gathering.stats().wanted.is_none() || gathering.stats().wants_more() {
            let event = match ends.next_step(&mut mail).await {
                ListenStep::Event(event) => event,
                ListenStep::TimeIsUp => break,
                // Whoever has not said what is enough has seen enough now.
                ListenStep::Interrupted if listening.expect.is_none() => break,
                ListenStep::Interrupted => {
                    gathering.add_gap(ResultGap::Interrupted);
                    break;
                }
                ListenStep::Closed => {
                    gathering.add_gap(ResultGap::Reconnected);
                    break;
                }
            };
            if let CallEvent::Reply(answer) = &event {
                gathering.note_request(answer.reply.request);
            }
            match gathering
                .handle_event(event)
                .map_err(FleetRequestError::from)?
            {
                ReportUpdate::Reply(reply) => show(FleetRequestUpdate::Reply(reply))?,
                ReportUpdate::Progress(tale) => show(FleetRequestUpdate::Progress(&tale))?,
                ReportUpdate::Sent(_) | ReportUpdate::Over | ReportUpdate::Quiet => {}
            }
        }
        if let Some(disturbance) = mail.disturbance() {
            gathering.add_gap(disturbance.into());
        }
        let mut report = gathering.into_report([].into());
        // Nobody here knows who was asked: those who answered were, and as many as are wanted.
        let stats = &mut report.stats;
        stats.discovered = stats.response_count().max(listening.expect.unwrap_or(0));
        Ok(report)
    }
}

fn reply_selector(listening: &ListenRequest<'_>) -> Result<ReplySelector, ClientError> {
    Ok(ReplySelector {
        agent: SubjectName::parse(listening.ddl.name())?,
        action: SubjectName::parse(listening.action.name())?,
        request: listening.request,
    })
}

/// What can end the waiting besides answers.
struct ListenEndConditions {
    interrupt: InterruptListener,
    deadline: Option<tokio::time::Instant>,
}

/// What happens next.
enum ListenStep {
    Event(CallEvent),
    TimeIsUp,
    Interrupted,
    Closed,
}

impl ListenEndConditions {
    fn from_request(listening: &ListenRequest<'_>) -> Self {
        Self {
            interrupt: InterruptListener::listen(),
            deadline: listening
                .time
                .map(|time| tokio::time::Instant::now() + time),
        }
    }

    async fn next_step(&mut self, mail: &mut ReplyListener) -> ListenStep {
        let deadline = self.deadline;
        let time_is_up = async move {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            event = mail.next() => event.map_or(ListenStep::Closed, ListenStep::Event),
            () = self.interrupt.wait_for_signal() => ListenStep::Interrupted,
            () = time_is_up => ListenStep::TimeIsUp,
        }
    }
}
