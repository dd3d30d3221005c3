//! `list`: the holders and waiters of a pool, as stored at the broker.

use muster_api::wire::Millis;
use muster_api::wire::identity::SubjectName;
use muster_api::{ActionError, AgentAction, CallContext};
use muster_contract::permit::{PermitListOutput, PermitPoolRow, PoolMemberRow};
use serde::Deserialize;

use super::to_action_error;
use crate::client::PermitClient;
use crate::pool::PoolMember;

pub(crate) struct PermitListAction(pub(crate) PermitClient);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct PermitListInput {
    pool: Option<String>,
}

/// The row of a member at this time of the broker.
fn member_row(party: &PoolMember, at: Millis) -> PoolMemberRow {
    PoolMemberRow {
        node: party.node.to_string(),
        run: party.run.to_string(),
        fence: party.revision,
        priority: party.priority.into(),
        limit: if party.occupied {
            0
        } else {
            party.limit.into()
        },
        age: at.saturating_sub(party.since) / 1000,
        expires: party.expires.saturating_sub(at) / 1000,
        occupied: party.occupied,
    }
}

impl AgentAction for PermitListAction {
    const NAME: &'static str = "list";
    type Input = PermitListInput;
    type Output = PermitListOutput;

    async fn run(
        &self,
        _: &CallContext,
        input: PermitListInput,
    ) -> Result<PermitListOutput, ActionError> {
        let names = match input.pool {
            Some(pool) => vec![parse_pool_input(&pool)?],
            None => self
                .0
                .list_pools()
                .await
                .map_err(|error| to_action_error(&error))?,
        };
        let mut pools = Vec::new();
        for name in names {
            let (at, holders, waiting) = self
                .0
                .inspect_pool(&name)
                .await
                .map_err(|error| to_action_error(&error))?;
            let rows = |parties: &[PoolMember]| -> Vec<PoolMemberRow> {
                parties.iter().map(|party| member_row(party, at)).collect()
            };
            pools.push(PermitPoolRow {
                pool: name.to_string(),
                holders: rows(&holders),
                waiting: rows(&waiting),
            });
        }
        Ok(PermitListOutput {
            holders: pools.iter().map(|pool| pool.holders.len()).sum(),
            waiting: pools.iter().map(|pool| pool.waiting.len()).sum(),
            pools,
        })
    }
}

/// Parses a pool name from a caller's input.
pub(super) fn parse_pool_input(text: &str) -> Result<SubjectName, ActionError> {
    SubjectName::parse(text).map_err(|error| ActionError::invalid_input(format!("pool: {error}")))
}
