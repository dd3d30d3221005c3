//! A rollout of Puppet runs: keeps its journal, hears Ctrl-C, and tells how it goes on. Draws nothing.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use muster_client::Answer;
use muster_client::runs::{Campaign, Halt, Mission, News, Outcome};
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
    Failed(&'a muster_client::ClientError),
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
        (mut runs, recorder): (Runs, &mut Recorder<'_>),
        mut show: impl FnMut(RunNews<'_>) -> Result<(), Error>,
    ) -> Result<Runs, Error> {
        let begun = Instant::now();
        let mut campaign = self.client.campaign(mission);
        let mut board = Board::new(runs.limit);
        let mut interrupt = Interrupt::listen();
        let mut tick = tokio::time::interval(TICK);
        let mut wave = 0;
        loop {
            let lines = tokio::select! {
                news = campaign.next() => match news {
                    None => break,
                    Some(news) => {
                        let open = open(&campaign);
                        let mut taking = Taking { runs: &mut runs, recorder: &mut *recorder, board: &mut board, wave: &mut wave, action };
                        match taking.take(news, open, campaign.under_way(), &mut show)? {
                            Some(lines) => lines,
                            None => continue,
                        }
                    }
                },
                () = interrupt.came() => {
                    campaign.halt(Halt::Interrupted);
                    show(RunNews::Halted(Halt::Interrupted, campaign.under_way()))?;
                    continue;
                }
                _ = tick.tick() => board.due(open(&campaign)),
            };
            for line in &lines {
                let ended = match line {
                    Line::Ended(node, _) => runs.ended.get(node),
                    _ => None,
                };
                show(RunNews::Told(line, ended))?;
            }
        }
        runs.not_asked.extend(campaign.left().cloned());
        runs.halt = campaign.halted();
        runs.took = begun.elapsed();
        recorder.end(match runs.halt {
            None => End::Finished,
            Some(Halt::Canary { .. } | Halt::Failures { .. }) => End::Stopped,
            Some(Halt::Interrupted) => End::Interrupted,
            Some(Halt::Broken) => End::Broken,
        });
        Ok(runs)
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

/// Where news go.
struct Taking<'t, 'r, 'p> {
    runs: &'t mut Runs,
    recorder: &'t mut Recorder<'p>,
    board: &'t mut Board,
    wave: &'t mut usize,
    action: &'r Action,
}

impl Taking<'_, '_, '_> {
    /// Takes one in; answers the lines that it is worth.
    fn take(
        &mut self,
        news: News,
        open: usize,
        under_way: usize,
        show: &mut impl FnMut(RunNews<'_>) -> Result<(), Error>,
    ) -> Result<Option<Vec<Line>>, Error> {
        match news {
            News::Asked(node) => {
                *self.wave += 1;
                self.recorder.wave(*self.wave, &BTreeSet::from([node]));
            }
            News::Sent { request, .. } => {
                let request = request.to_string();
                self.recorder.sent(&request);
                self.runs.requests.push(request);
            }
            News::State { node, state } => return Ok(Some(self.board.state(&node, &state, open))),
            News::Ended {
                node,
                run,
                outcome,
                answer,
            } => return Ok(Some(self.ended((node, run), outcome, answer, open))),
            News::Disbelieved(word) => *self.runs.disbelieved.entry(word).or_default() += 1,
            News::Halted(halt) => show(RunNews::Halted(halt, under_way))?,
            News::Failed(error) => show(RunNews::Failed(&error))?,
        }
        Ok(None)
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
        } else if outcome.class == "not_connected" {
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
