//! `list`: the holders and waiters of a pool, as stored at the broker. `release`: ends this node's permit of a pool; the run that holds it is
//! stopped, as when the permit is lost.

use muster_api::wire::Millis;
use muster_api::wire::identity::SubjectName;
use muster_api::{ActionError, CallContext};
use muster_contract::permit::{
    PermitListInput, PermitListOutput, PermitPoolRow, PermitReleaseInput, PermitReleaseOutput,
    PoolMemberRow,
};
use uuid::Uuid;

use crate::permits::client::PermitClient;
use crate::permits::pool::PoolMember;

/// The row of a member at this time of the broker.
fn member_row(member: &PoolMember, at: Millis) -> PoolMemberRow {
    PoolMemberRow {
        node: member.node.as_str().into(),
        run: member.run.to_string().into(),
        fence: member.revision,
        priority: member.priority.into(),
        limit: if member.occupied || member.limit == u32::MAX { 0 } else { member.limit.into() },
        age: at.saturating_sub(member.since) / 1000,
        expires: member.expires.saturating_sub(at) / 1000,
        occupied: member.occupied,
    }
}

pub(crate) async fn list_pools(
    client: PermitClient,
    _: CallContext,
    input: PermitListInput,
) -> Result<PermitListOutput, ActionError> {
    let names = match input.pool {
        Some(pool) => vec![parse_pool_input(&pool)?],
        None => client.list_pools().await.map_err(ActionError::from_cause)?,
    };
    let mut pools = Vec::new();
    for name in names {
        let (at, holders, waiting) =
            client.inspect_pool(&name).await.map_err(ActionError::from_cause)?;
        let rows = |members: &[PoolMember]| -> Vec<PoolMemberRow> {
            members.iter().map(|member| member_row(member, at)).collect()
        };
        pools.push(PermitPoolRow {
            pool: name.to_string().into(),
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

fn parse_pool_input(text: &str) -> Result<SubjectName, ActionError> {
    SubjectName::parse(text).map_err(|error| ActionError::invalid_input(format!("pool: {error}")))
}

pub(crate) fn release_permits(
    client: &PermitClient,
    input: &PermitReleaseInput,
) -> Result<PermitReleaseOutput, ActionError> {
    let pool = parse_pool_input(&input.pool)?;
    let run = input.run.as_deref().map(Uuid::parse_str).transpose();
    let run = run.map_err(|error| ActionError::invalid_input(format!("run: {error}")))?;
    let released = if input.noop == Some(true) {
        client.count_permits(&pool, run)
    } else {
        client.revoke_permits(&pool, run)
    };
    Ok(PermitReleaseOutput { released, changed: released > 0 })
}
