//! Opens a handful of replies: on one processor if it is a small one, otherwise on as many as pay. The results are in the replies' order.

use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;

use muster_bus::Bytes;
use muster_wire::identity::Name;
use muster_wire::sign::{Expected, OpenReply, Refusal, open_replies};
use uuid::Uuid;

use crate::party::{Party, now};

/// Fewer than these are not worth the way to another processor. With 512 the processor time for each was hardly less on two threads of one
/// core, and a thousand nodes took a tenth longer, because of the last answers.
const ALONE: usize = 64;

/// More processors are not taken from whoever else uses the machine.
const PROCESSORS: usize = 8;

type Opened = Vec<Result<OpenReply, Refusal>>;

/// What replies must answer.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    pub(crate) request: Uuid,
    pub(crate) agent: Name,
    pub(crate) action: Name,
}

impl Question {
    pub(crate) fn expected(&self) -> Expected<'_> {
        Expected {
            request: Some(self.request),
            agent: &self.agent,
            action: &self.action,
        }
    }
}

/// Opens replies to a question.
pub(crate) async fn open(party: &Arc<Party>, question: &Question, replies: Vec<Bytes>) -> Opened {
    let processors = available_parallelism().map_or(1, NonZero::get);
    let share = replies
        .len()
        .div_ceil(processors.min(PROCESSORS))
        .max(ALONE);
    if replies.len() <= share {
        return here(party, question, &replies);
    }
    let share_out = |replies: &[Bytes]| {
        let (party, question, replies) = (Arc::clone(party), question.clone(), replies.to_vec());
        tokio::task::spawn_blocking(move || here(&party, &question, &replies))
    };
    let tasks: Vec<_> = replies.chunks(share).map(share_out).collect();
    let mut opened = Vec::with_capacity(replies.len());
    for (task, replies) in tasks.into_iter().zip(replies.chunks(share)) {
        // A runtime that is about to end takes no more work.
        let done = task.await;
        opened.extend(done.unwrap_or_else(|_| here(party, question, replies)));
    }
    opened
}

fn here(party: &Party, question: &Question, replies: &[Bytes]) -> Opened {
    let expected = question.expected();
    open_replies(replies, &expected, &party.trust(), &party.tokens, now())
}
