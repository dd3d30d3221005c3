//! `list`: who holds a pool and who waits for it, as the broker has it.

use muster_api::wire::Millis;
use muster_api::wire::identity::Name;
use muster_api::{Action, ActionError, Context};
use serde::{Deserialize, Serialize};

use super::told;
use crate::desk::Desk;
use crate::pool::Party;

pub(crate) struct List(pub(crate) Desk);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Input {
    pool: Option<String>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    pools: Vec<Shown>,
    holders: usize,
    waiting: usize,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
struct Shown {
    pool: String,
    holders: Vec<Row>,
    waiting: Vec<Row>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
struct Row {
    node: String,
    run: String,
    /// Of a holder, the permit's fence; of one who waits, its place in the order of coming.
    fence: u64,
    priority: i8,
    limit: u32,
    /// Seconds since it was written.
    age: u64,
    /// Seconds until it lapses, if nothing is heard of it.
    expires: u64,
    /// Somebody else started what runs.
    occupied: bool,
}

impl Row {
    fn of(party: &Party, at: Millis) -> Self {
        Self {
            node: party.node.to_string(),
            run: party.run.to_string(),
            fence: party.revision,
            priority: party.priority,
            limit: if party.occupied { 0 } else { party.limit },
            age: at.saturating_sub(party.since) / 1000,
            expires: party.expires.saturating_sub(at) / 1000,
            occupied: party.occupied,
        }
    }
}

impl Action for List {
    const NAME: &'static str = "list";
    type Input = Input;
    type Output = Output;

    async fn run(&self, _: &Context, input: Input) -> Result<Output, ActionError> {
        let names = match input.pool {
            Some(pool) => vec![pool_name(&pool)?],
            None => self.0.pools().await.map_err(|error| told(&error))?,
        };
        let mut pools = Vec::new();
        for name in names {
            let (at, holders, waiting) = self.0.look(&name).await.map_err(|error| told(&error))?;
            let rows = |parties: &[Party]| -> Vec<Row> {
                parties.iter().map(|party| Row::of(party, at)).collect()
            };
            pools.push(Shown {
                pool: name.to_string(),
                holders: rows(&holders),
                waiting: rows(&waiting),
            });
        }
        Ok(Output {
            holders: pools.iter().map(|pool| pool.holders.len()).sum(),
            waiting: pools.iter().map(|pool| pool.waiting.len()).sum(),
            pools,
        })
    }
}

/// A pool's name as a caller gives it.
pub(super) fn pool_name(text: &str) -> Result<Name, ActionError> {
    Name::parse(text).map_err(|error| ActionError::invalid(format!("pool: {error}")))
}
