//! One node's way, as far as it goes now: each step is written down, done, and written down again.

use std::sync::Arc;

use muster_api::wire::identity::Identity;
use muster_bus::NameStore;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::notify::{self, message};
use crate::options::Occasion;
use crate::plan::{Builtin, Plan, Step, StepName, Work};
use crate::record::{Next, Notice, Pauses, Record, State, StepError, Told};
use crate::service::now;
use crate::store::{RecordError, Store};
use crate::work::Worker;

/// How often it is tried to settle or to retire; the pauses grow, and nobody else does it.
const STUBBORN: u32 = u32::MAX;

/// A node on its way, in the hands of one leader.
#[derive(Debug)]
pub struct Journey {
    store: Store,
    worker: Worker,
    plan: Arc<Plan>,
    node: Identity,
    epoch: u64,
}

impl Journey {
    /// The way of this node.
    pub fn new(store: Store, worker: Worker, plan: Arc<Plan>, node: Identity, epoch: u64) -> Self {
        Self {
            store,
            worker,
            plan,
            node,
            epoch,
        }
    }

    /// Goes on until there is nothing to do now.
    pub async fn go(&self) {
        if let Err(error) = self.steps().await {
            tracing::warn!(node = %self.node, %error, "a node is left where it is");
        }
    }

    async fn steps(&self) -> Result<(), RecordError> {
        // The number under which the node is held; a new leader takes it with a larger one.
        let mut fence = None;
        let record = self.store.get(&self.node).await?;
        let mut record = record.ok_or_else(|| RecordError::Unknown(self.node.clone()))?;
        loop {
            record = match record.next(&self.plan, now()) {
                Next::Step(step) => self.step(step, &mut fence).await?,
                Next::Settle => self.settle(record).await?,
                Next::Retire => self.retire(record).await?,
                Next::Wait(_) | Next::Rest => return Ok(()),
            };
        }
    }

    /// Does one step, and gives the record as it is then.
    async fn step(&self, step: &Step, fence: &mut Option<u64>) -> Result<Record, RecordError> {
        let mut began = false;
        let (record, revision) = self
            .edit(|record| {
                // Somebody may have paused or retired it in between.
                began = matches!(record.next(&self.plan, now()), Next::Step(next) if next.name == step.name);
                if began {
                    record.begin(&step.name, now());
                }
                began
            })
            .await?;
        if !began {
            return Ok(record);
        }
        tracing::info!(node = %self.node, step = %step.name, "begins");
        match self.work(step, &record, revision, fence).await {
            Ok(found) => {
                let is_last = |record: &Record| {
                    let mut open = self.plan.steps().iter().map(|step| &step.name);
                    open.all(|name| record.done.contains(name))
                };
                let finished = self.edit(|record| {
                    record.finish(&step.name, found.clone(), now());
                    if record.state == State::Working && is_last(record) {
                        record.complete(now());
                    }
                    true
                });
                Ok(finished.await?.0)
            }
            Err(error) => self.failed(&step.name, &error, step.tries).await,
        }
    }

    async fn work(
        &self,
        step: &Step,
        record: &Record,
        revision: u64,
        fence: &mut Option<u64>,
    ) -> Result<Map<String, Value>, StepError> {
        if matches!(step.work, Work::Builtin(Builtin::Notify, _)) {
            self.tell(Occasion::Done, record).await?;
            return Ok(Map::new());
        }
        let held = match *fence {
            Some(held) => held,
            None if touches_node(&step.work) => {
                if step.name != Builtin::Lock.name() {
                    self.worker.lock(record, revision).await?;
                }
                *fence = Some(revision);
                revision
            }
            None => revision,
        };
        self.worker.work(step, record, held).await
    }

    /// Deals with a failure: takes back what was signed, gives the node back, tells everybody.
    async fn settle(&self, record: Record) -> Result<Record, RecordError> {
        let settled = async {
            let mut record = record;
            let signed = [Builtin::Csr.word(), Builtin::Sign.word()];
            let mut begun = record.history.iter().map(|entry| entry.step.as_str());
            let is_signed = begun.any(|step| signed.contains(&step));
            if self.worker.options.compensate && is_signed && !record.compensated {
                let revoked = self.worker.clean(&self.node).await?;
                let edited = self.edit(|record| {
                    let found = Map::from_iter([("taken_back".to_owned(), revoked.clone())]);
                    record.compensate(found, now());
                    true
                });
                record = edited.await.map_err(kept)?.0;
            }
            self.worker.unlock(&self.node).await;
            self.tell(Occasion::Failed, &record).await
        };
        match settled.await {
            Ok(()) => {
                let edited = self.edit(|record| {
                    record.settle(now());
                    true
                });
                Ok(edited.await?.0)
            }
            Err(error) => self.failed(&word("settle"), &error, STUBBORN).await,
        }
    }

    /// Takes its certificates back on all masters, and tells everybody.
    async fn retire(&self, record: Record) -> Result<Record, RecordError> {
        let retired = async {
            let revoked = self.worker.clean(&self.node).await?;
            // What was revoked in an earlier try is no less revoked.
            let mut all = record
                .values
                .get("retired")
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default();
            all.extend(revoked.as_array().cloned().unwrap_or_default());
            let found = Map::from_iter([("retired".to_owned(), Value::Array(all))]);
            let edited = self.edit(|record| {
                record.values.extend(found.clone());
                true
            });
            let (record, _) = edited.await.map_err(kept)?;
            NameStore::new(self.store.bucket().clone())
                .release(&self.node)
                .await
                .map_err(|error| StepError::passing(error.to_string()))?;
            self.tell(Occasion::Retired, &record).await
        };
        match retired.await {
            Ok(()) => {
                let edited = self.edit(|record| {
                    record.retired(Map::new(), now());
                    true
                });
                Ok(edited.await?.0)
            }
            Err(error) => self.failed(&word("retire"), &error, STUBBORN).await,
        }
    }

    /// Tells every target that was not told yet; the first trouble is the answer, after all of them were tried.
    async fn tell(&self, occasion: Occasion, record: &Record) -> Result<(), StepError> {
        let options = &self.worker.options;
        let mut trouble = None;
        for target in notify::targets(options, occasion) {
            let key = notify::key(occasion, target);
            let known = record.notices.get(&key);
            if known.is_some_and(|notice| notice.told == Told::Sent) {
                continue;
            }
            let id = known.map_or_else(Uuid::now_v7, |notice| notice.id);
            self.notice(&key, id, Told::Sending).await?;
            let message = message(id, occasion, record);
            let system = Arc::clone(&self.worker.system);
            match notify::send(system, &target.channel, &message).await {
                Ok(()) => self.notice(&key, id, Told::Sent).await?,
                Err(error) => {
                    let words = format!("{} was not told: {}", target.name, error.words);
                    trouble.get_or_insert(StepError::passing(words));
                }
            }
        }
        trouble.map_or(Ok(()), Err)
    }

    async fn notice(&self, key: &str, id: Uuid, told: Told) -> Result<(), StepError> {
        let edited = self.edit(|record| {
            let notice = Notice {
                id,
                told,
                at: now(),
            };
            record.notices.insert(key.to_owned(), notice);
            true
        });
        edited.await.map(drop).map_err(kept)
    }

    async fn failed(
        &self,
        step: &StepName,
        error: &StepError,
        tries: u32,
    ) -> Result<Record, RecordError> {
        tracing::warn!(node = %self.node, %step, %error, "a step was not done");
        let options = &self.worker.options;
        let pauses = Pauses {
            first: options.backoff.saturating_mul(1000),
            most: options.backoff_most.saturating_mul(1000),
        };
        let edited = self.edit(|record| {
            record.fail(step, error, tries, pauses, now());
            true
        });
        Ok(edited.await?.0)
    }

    /// Changes the record, unless a newer leader has.
    async fn edit(
        &self,
        mut change: impl FnMut(&mut Record) -> bool,
    ) -> Result<(Record, u64), RecordError> {
        self.store
            .edit(&self.node, |record| {
                if record.epoch > self.epoch {
                    return Err(RecordError::Fenced {
                        node: self.node.clone(),
                        epoch: record.epoch,
                    });
                }
                record.epoch = self.epoch;
                Ok(change(record))
            })
            .await
    }
}

/// Whether a step asks the node itself for something that nobody else may ask meanwhile.
fn touches_node(work: &Work) -> bool {
    match work {
        Work::Builtin(builtin, _) => !matches!(
            builtin,
            Builtin::Place | Builtin::Clean | Builtin::Sign | Builtin::Notify
        ),
        Work::Agent(_) | Work::Helper(_) => false,
    }
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "the signature that `map_err` asks for"
)]
fn kept(error: RecordError) -> StepError {
    StepError::passing(error.to_string())
}

fn word(text: &str) -> StepName {
    StepName::try_from(text.to_owned()).unwrap_or_else(|_| Builtin::Notify.name())
}
