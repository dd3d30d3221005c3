//! Waits for answers to requests that were sent elsewhere. Tells how it goes on; draws no results.

use std::time::Duration;

use muster_client::{Awaited, ClientError, Event, Mail};
use muster_ddl::{Action, Ddl};
use muster_wire::identity::Name;
use muster_wire::subject::AnswerAddress;
use uuid::Uuid;

use super::error::AskError;
use super::fleet::Fleet;
use super::gather::{Gathering, Step};
use super::interrupt::Interrupt;
use super::rollout::News;
use crate::clock;
use crate::error::Error;
use crate::report::{Gap, Report, RequestStats};

/// What is waited for, and how long.
#[derive(Debug)]
pub struct Listening<'a> {
    /// A name, or an address of the caller's own.
    pub mailbox: &'a str,
    /// The agent that is asked.
    pub ddl: &'a Ddl,
    /// The action that is asked.
    pub action: &'a Action,
    /// The request; any, when absent.
    pub request: Option<Uuid>,
    /// So many answers are enough.
    pub expect: Option<usize>,
    /// So much time is enough.
    pub time: Option<Duration>,
}

impl Fleet {
    /// The address that a mailbox's name stands for.
    pub fn mailbox(&self, name: &str) -> Result<AnswerAddress, AskError> {
        Ok(self.client.mailbox(name)?)
    }

    /// Listens until enough has come, the time is up, or the user wants no more. `ready` is told the subject once nothing that is
    /// answered there can be missed.
    pub async fn listen(
        &self,
        listening: Listening<'_>,
        ready: impl FnOnce(&str),
        mut show: impl FnMut(News<'_>) -> Result<(), Error>,
    ) -> Result<Report, Error> {
        let Listening { ddl, action, .. } = listening;
        let awaited = awaited(&listening).map_err(AskError::from)?;
        let address = self.mailbox(listening.mailbox)?;
        let mail = self.client.listen(&address, awaited).await;
        let mut mail = mail.map_err(AskError::from)?;
        ready(mail.subject());
        let stats = RequestStats {
            wanted: listening.expect,
            started: clock::now(),
            ..RequestStats::default()
        };
        let mut gathering = Gathering::new(ddl.name(), action, 0, stats);
        let mut ends = Ends::of(&listening);
        while gathering.stats().wanted.is_none() || gathering.stats().wants_more() {
            let event = match ends.next(&mut mail).await {
                Next::Event(event) => event,
                Next::TimeIsUp => break,
                // Whoever has not said what is enough has seen enough now.
                Next::Interrupted if listening.expect.is_none() => break,
                Next::Interrupted => {
                    gathering.gap(Gap::Interrupted);
                    break;
                }
                Next::Closed => {
                    gathering.gap(Gap::Reconnected);
                    break;
                }
            };
            if let Event::Reply(answer) = &event {
                gathering.about(answer.reply.request);
            }
            match gathering.take(event).map_err(AskError::from)? {
                Step::Reply(reply) => show(News::Reply(reply))?,
                Step::Progress(tale) => show(News::Progress(&tale))?,
                Step::Sent(_) | Step::Over | Step::Quiet => {}
            }
        }
        if let Some(disturbance) = mail.incomplete() {
            gathering.gap(disturbance.into());
        }
        let mut report = gathering.report([].into());
        // Nobody here knows who was asked: those who answered were, and as many as are wanted.
        let stats = &mut report.stats;
        stats.discovered = stats.responses().max(listening.expect.unwrap_or(0));
        Ok(report)
    }
}

fn awaited(listening: &Listening<'_>) -> Result<Awaited, ClientError> {
    Ok(Awaited {
        agent: Name::parse(listening.ddl.name())?,
        action: Name::parse(listening.action.name())?,
        request: listening.request,
    })
}

/// What can end the waiting besides answers.
struct Ends {
    interrupt: Interrupt,
    deadline: Option<tokio::time::Instant>,
}

/// What happens next.
enum Next {
    Event(Event),
    TimeIsUp,
    Interrupted,
    Closed,
}

impl Ends {
    fn of(listening: &Listening<'_>) -> Self {
        Self {
            interrupt: Interrupt::listen(),
            deadline: listening
                .time
                .map(|time| tokio::time::Instant::now() + time),
        }
    }

    async fn next(&mut self, mail: &mut Mail) -> Next {
        let deadline = self.deadline;
        let time_is_up = async move {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            event = mail.next() => event.map_or(Next::Closed, Next::Event),
            () = self.interrupt.came() => Next::Interrupted,
            () = time_is_up => Next::TimeIsUp,
        }
    }
}
