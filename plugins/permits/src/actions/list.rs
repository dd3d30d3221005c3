//! `list`: the holders and waiters of a pool, as stored at the broker.

use muster_api::wire::Millis;
use muster_api::wire::identity::SubjectName;
use muster_api::{ActionError, AgentAction, CallContext};
use serde::{Deserialize, Serialize};

use super::to_action_error;
use crate::client::PermitClient;
use crate::pool::PoolMember;

pub(crate) struct PermitListAction(pub(crate) PermitClient);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct PermitListInput {
    pool: Option<String>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct PermitListOutput {
    pools: Vec<PermitPoolRow>,
    holders: usize,
    waiting: usize,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
struct PermitPoolRow {
    pool: String,
    holders: Vec<PoolMemberRow>,
    waiting: Vec<PoolMemberRow>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
struct PoolMemberRow {
    node: String,
    run: String,
    /// For a holder: the fence of the permit. For a waiting run: its position in the order of arrival.
    fence: u64,
    priority: i8,
    limit: u32,
    /// Seconds since it was written.
    age: u64,
    /// Seconds until it expires without another heartbeat.
    expires: u64,
    /// Whether the run was started outside of Muster.
    occupied: bool,
}

impl PoolMemberRow {
    fn from_member(member: &PoolMember, at: Millis) -> Self {
        Self {
            node: member.node.to_string(),
            run: member.run.to_string(),
            fence: member.revision,
            priority: member.priority,
            limit: if member.occupied { 0 } else { member.limit },
            age: at.saturating_sub(member.since) / 1000,
            expires: member.expires.saturating_sub(at) / 1000,
            occupied: member.occupied,
        }
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
            let rows = |members: &[PoolMember]| -> Vec<PoolMemberRow> {
                members
                    .iter()
                    .map(|member| PoolMemberRow::from_member(member, at))
                    .collect()
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
