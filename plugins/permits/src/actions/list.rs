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
fn member_row(member: &PoolMember, at: Millis) -> PoolMemberRow {
    PoolMemberRow {
        node: member.node.to_string(),
        run: member.run.to_string(),
        fence: member.revision,
        priority: member.priority.into(),
        limit: if member.occupied { 0 } else { member.limit.into() },
        age: at.saturating_sub(member.since) / 1000,
        expires: member.expires.saturating_sub(at) / 1000,
        occupied: member.occupied,
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
            None => self.0.list_pools().await.map_err(|error| to_action_error(&error))?,
        };
        let mut pools = Vec::new();
        for name in names {
            let (at, holders, waiting) =
                self.0.inspect_pool(&name).await.map_err(|error| to_action_error(&error))?;
            let rows = |members: &[PoolMember]| -> Vec<PoolMemberRow> {
                members.iter().map(|member| member_row(member, at)).collect()
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
