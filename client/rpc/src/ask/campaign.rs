//! A rollout of Puppet runs: keeps its journal, hears Ctrl-C, and tells how it goes on. Draws nothing.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use muster_client::runs::{Campaign, Halt, Mission, News, Outcome};
use muster_client::{Answer, ClientError};
use muster_ddl::Action;
use muster_wire::identity::Identity;
use uuid::Uuid;

use super::fleet::Fleet;
use super::interrupt::Interrupt;
use super::recorder::Recorder;
use crate::error::Error;
use crate::jobs::End;
use crate::report::Reply;
use crate::runs::board::{Board, Line};
use crate::runs::{Ended, Runs};

/// How often it is looked whether something that was held back is to be told.
const TICK: Duration = Duration::from_millis(250);

/// Something that can be shown at once.
#[derive(Debug, Clone, Copy)]
pub enum RunNews<'a> {
    /// A line of the log; for an end, the whole of it.
    Told(&'a Line, Option<&'a Ended>),
    /// Nobody else is asked; so many are waited for.
    Halted(Halt, usize),
    /// Why a question could not be sent.
    Failed(&'a ClientError),
}

impl Fleet {
    /// Longest time that is waited for an answer beside what the action itself may take.
    pub fn patience(&self) -> Duration {
        self.listen
    }

    /// Carries the mission out, and adds what comes of it to the runs. The first Ctrl-C lets nobody else be asked; those who were
    /// asked are waited for.
    pub async fn run_all(
        &self,
        mission: Mission,
        action: &Action,
        (runs, recorder): (Runs, &mut Recorder<'_>),
        mut show: impl FnMut(RunNews<'_>) -> Result<(), Error>,
    ) -> Result<Runs, Error> {
        let begun = Instant::now();
        let mut campaign = self.client.campaign(mission);
        let mut course = Course {
            board: Board::new(runs.limit),
            runs,
            recorder,
            action,
            asked: 0,
        };
        let mut interrupt = Interrupt::listen();
        let mut tick = tokio::time::interval(TICK);
        loop {
            let tales = tokio::select! {
                news = campaign.next() => match news {
                    Some(news) => course.take(news, &campaign),
                    None => break,
                },
                () = interrupt.came() => {
                    campaign.halt(Halt::Interrupted);
                    vec![Tale::Halted(Halt::Interrupted, campaign.under_way())]
                }
                _ = tick.tick() => lines(course.board.due(open(&campaign))),
            };
            for tale in &tales {
                show(course.news(tale))?;
            }
        }
        let halt = campaign.halted();
        course.recorder.end(match halt {
            None => End::Finished,
            Some(Halt::Canary { .. } | Halt::Failures { .. }) => End::Stopped,
            Some(Halt::Interrupted) => End::Interrupted,
            Some(Halt::Broken) => End::Broken,
        });
        let mut runs = course.runs;
        runs.not_asked.extend(campaign.left().cloned());
        Ok(Runs {
            halt,
            took: begun.elapsed(),
            ..runs
        })
    }
}

/// How many have not ended, and will: those who were asked, and those who will be.
fn open(campaign: &Campaign) -> usize {
    let left = match campaign.halted() {
        None => campaign.left().count(),
        Some(_) => 0,
    };
    campaign.under_way() + left
}

/// Something to be told.
enum Tale {
    Line(Line),
    Halted(Halt, usize),
    Failed(ClientError),
}

fn lines(lines: Vec<Line>) -> Vec<Tale> {
    lines.into_iter().map(Tale::Line).collect()
}

/// What has come of it so far, and where it is written.
struct Course<'c, 'p> {
    runs: Runs,
    recorder: &'c mut Recorder<'p>,
    board: Board,
    action: &'c Action,
    /// How many questions were sent.
    asked: usize,
}

impl Course<'_, '_> {
    /// Takes news in; answers what is to be told of them.
    fn take(&mut self, news: News, campaign: &Campaign) -> Vec<Tale> {
        match news {
            News::Asked(node) => {
                self.asked += 1;
                self.recorder.run(self.asked, node);
            }
            News::Sent { request, .. } => {
                let request = request.to_string();
                self.recorder.sent(&request);
                self.runs.requests.push(request);
            }
            News::State { node, state } => {
                return lines(self.board.state(&node, &state, open(campaign)));
            }
            News::Ended {
                node,
                run,
                outcome,
                answer,
            } => return lines(self.ended((node, run), outcome, answer, open(campaign))),
            News::Disbelieved(word) => *self.runs.disbelieved.entry(word).or_default() += 1,
            News::Halted(halt) => return vec![Tale::Halted(halt, campaign.under_way())],
            News::Failed(error) => return vec![Tale::Failed(error)],
        }
        Vec::new()
    }

    fn ended(
        &mut self,
        (node, run): (Identity, Uuid),
        mut outcome: Outcome,
        answer: Option<Box<Answer>>,
        open: usize,
    ) -> Vec<Line> {
        outcome.data = self.action.redact_output(&outcome.data);
        if let Some(answer) = answer {
            self.recorder.reply(&reply(*answer, &outcome));
        } else if outcome.is_absent() {
            self.recorder.waved(&BTreeSet::from([node.clone()]));
        }
        let lines = self.board.ended(&node, &outcome, open);
        let ended = Ended {
            run,
            outcome,
            earlier: false,
        };
        self.runs.ended.insert(node, ended);
        lines
    }

    /// It, for whoever draws.
    fn news<'t>(&'t self, tale: &'t Tale) -> RunNews<'t> {
        match tale {
            Tale::Line(line) => {
                let ended = match line {
                    Line::Ended(node, _) => self.runs.ended.get(node),
                    _ => None,
                };
                RunNews::Told(line, ended)
            }
            Tale::Halted(halt, under_way) => RunNews::Halted(*halt, *under_way),
            Tale::Failed(error) => RunNews::Failed(error),
        }
    }
}

/// The answer as jobs keep it.
fn reply(answer: Answer, outcome: &Outcome) -> Reply {
    Reply {
        node: answer.reply.sender,
        status: answer.reply.statuscode,
        message: answer.reply.statusmsg,
        reason: answer.reply.reason,
        data: outcome.data.clone(),
        took: answer.reply.took,
        trace: None,
    }
}
