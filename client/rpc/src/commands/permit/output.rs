//! Renders permit pools: holders and waiting nodes, with times.

use std::time::Duration;

use muster_base::format_duration;
use muster_client::{NodeReply, RequestReport};
use muster_contract::permit::{PermitListOutput, PermitPoolRow, PoolMemberRow};
use muster_display::TextPage;
use muster_display::printer::STRONG;
use muster_display::table::Table;
use serde::Serialize;

/// The smallest limit that any node uses.
fn limit_text(pool: &PermitPoolRow) -> String {
    let members = pool.holders.iter().chain(&pool.waiting);
    let limits = members.map(|member| member.limit).filter(|limit| *limit > 0);
    limits.min().map_or("-".to_owned(), |limit| limit.to_string())
}

/// The pools in the first successful reply to `permit list`.
pub fn read_pools(report: &RequestReport) -> Vec<PermitPoolRow> {
    let output: Option<PermitListOutput> = report.successes().next().map(NodeReply::typed_outputs);
    output.unwrap_or_default().pools
}

/// Renders one line per pool.
pub fn render_pool_list(pools: &[PermitPoolRow], width: usize) -> String {
    let row = |pool: &PermitPoolRow| {
        [
            pool.pool.line().into_owned(),
            pool.holders.len().to_string(),
            limit_text(pool),
            pool.waiting.len().to_string(),
        ]
    };
    Table::new(["POOL", "HELD", "LIMIT", "WAITING"]).rows(pools.iter().map(row)).render_rows(width)
}

pub fn render_pools(pools: &[PermitPoolRow], width: usize) -> String {
    let mut page = TextPage::default();
    for pool in pools {
        let name = pool.pool.line();
        let (in_use, waiting) = (pool.holders.len(), pool.waiting.len());
        let limit = limit_text(pool);
        page.push_line(format_args!(
            "{STRONG}Pool {name}{STRONG:#}: {in_use} of {limit} permits in use, {waiting} waiting"
        ));
        for (title, members) in [("HOLDER", &pool.holders), ("WAITING", &pool.waiting)] {
            if members.is_empty() {
                continue;
            }
            page.push_gap();
            let heading = [title, "FENCE", "PRIO", "SINCE", "LEFT", "RUN"];
            let rows = members.iter().map(member_cells);
            page.push_text(Table::new(heading).rows(rows).render(width));
        }
        page.push_gap();
    }
    page.into_text()
}

fn member_cells(member: &PoolMemberRow) -> [String; 6] {
    let run = if member.occupied { "not by Muster".into() } else { member.run.line() };
    [
        member.node.line().into_owned(),
        member.fence.to_string(),
        member.priority.to_string(),
        format_duration(Duration::from_secs(member.age)),
        format_duration(Duration::from_secs(member.expires)),
        run.into_owned(),
    ]
}

pub fn release_question(pool: &str, holders: &[&PoolMemberRow]) -> String {
    let mut page = TextPage::default();
    for holder in holders {
        let (node, run) = (holder.node.line(), holder.run.line());
        let (fence, age) = (holder.fence, format_duration(Duration::from_secs(holder.age)));
        page.push_line(format_args!(
            "{node} has permit {fence} of {pool} for run {run} since {age}; the run will be stopped"
        ));
    }
    page.push_text("Continue? [y/N]");
    page.into_text()
}

/// What the document for programs contains, besides the statistics of the request.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct PermitPoolsDocument<'a> {
    pub pools: &'a [PermitPoolRow],
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{read_pools, release_question, render_pool_list, render_pools};
    use crate::report::testing::{WIDTH, is_within_width};
    use crate::report::testing::{plain, reply, report};

    fn member(node: &str, fence: u64, occupied: bool) -> Value {
        json!({"node": node, "run": "019a9f2e-7c1b-7d44-9a57-0e6f5c1d2b3a", "fence": fence, "priority": 0,
               "limit": if occupied { 0 } else { 2 }, "age": 12, "expires": 48, "occupied": occupied})
    }

    #[test]
    fn renders_pools_with_and_without_holders() {
        let outputs = json!({"pools": [
            {"pool": "puppet", "holders": [member("web1.example.net", 41, false), member("web2.example.net", 44, true)],
             "waiting": [member("web3.example.net\u{1b}[2J", 47, false)]},
            {"pool": "night", "holders": [], "waiting": []},
            {"nonsense": true},
        ], "holders": 2, "waiting": 1});
        let report = report("permit", "list", vec![reply("web1", 0, "OK", outputs)]);
        let pools = read_pools(&report);
        let live: Vec<_> = pools.iter().flat_map(|pool| &pool.holders).take(1).collect();
        let texts = [
            render_pool_list(&pools, WIDTH),
            render_pools(&pools, WIDTH),
            release_question("puppet", &live),
        ];
        let text = plain(&texts.join("\n---\n"));
        assert!(
            text.lines().take_while(|line| !line.contains("has permit")).all(is_within_width),
            "{text}"
        );
        insta::assert_snapshot!("permit", text);
    }
}
