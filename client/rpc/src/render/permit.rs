//! Pools of run permits: who holds them, who waits, and since when.

use serde::{Deserialize, Serialize};

use super::grid::{Cell, grid};
use super::json::Stats;
use super::page::Page;
use super::printable::line;
use crate::printer::STRONG;
use crate::report::Report;

/// One pool, as a node tells it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Pool {
    #[serde(rename = "pool")]
    name: String,
    #[serde(default)]
    holders: Vec<Party>,
    #[serde(default)]
    waiting: Vec<Party>,
}

/// Somebody who holds a permit, or waits for one.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Party {
    node: String,
    /// The run that it is for.
    #[serde(default)]
    run: String,
    /// Of a holder the permit's number; of one who waits its place in the order of coming.
    #[serde(default)]
    fence: u64,
    #[serde(default)]
    priority: i64,
    /// How many it was told may hold the pool; 0 for a run that somebody else began.
    #[serde(default)]
    limit: u64,
    /// Seconds since it came.
    #[serde(default)]
    age: u64,
    /// Seconds until it lapses, if nothing is heard of it.
    #[serde(default)]
    expires: u64,
    /// Whether somebody else began what runs.
    #[serde(default)]
    occupied: bool,
}

impl Pool {
    /// Those who hold its permits.
    pub fn holders(&self) -> impl Iterator<Item = &Party> {
        self.holders.iter()
    }

    /// The smallest limit that anybody goes by.
    fn limit(&self) -> String {
        let parties = self.holders.iter().chain(&self.waiting);
        let limits = parties.map(|party| party.limit).filter(|limit| *limit > 0);
        limits
            .min()
            .map_or("-".to_owned(), |limit| limit.to_string())
    }
}

impl Party {
    /// The node.
    pub fn node(&self) -> &str {
        &self.node
    }
}

/// What a successful answer to `permit list` says. What cannot be read is left out.
pub fn pools(report: &Report) -> Vec<Pool> {
    let told = report.replies.iter().find(|reply| reply.is_ok());
    let pools = told.and_then(|reply| reply.data.get("pools")?.as_array());
    let pools = pools.into_iter().flatten();
    pools
        .filter_map(|pool| Pool::deserialize(pool).ok())
        .collect()
}

/// A line for each pool.
pub fn list(pools: &[Pool], width: usize) -> String {
    if pools.is_empty() {
        return String::new();
    }
    let heading = ["POOL", "HELD", "LIMIT", "WAITING"].map(str::to_owned);
    let row = |pool: &Pool| {
        let cells = [
            line(&pool.name).into_owned(),
            pool.holders.len().to_string(),
            pool.limit(),
            pool.waiting.len().to_string(),
        ];
        cells.map(Cell::plain).to_vec()
    };
    let rows: Vec<Vec<Cell>> = pools.iter().map(row).collect();
    grid(&heading, &rows, width, None).text
}

/// Everybody who holds or waits.
pub fn show(pools: &[Pool], width: usize) -> String {
    let mut page = Page::default();
    for pool in pools {
        let name = line(&pool.name);
        let (held, waiting) = (pool.holders.len(), pool.waiting.len());
        let limit = pool.limit();
        page.line(format_args!(
            "{STRONG}Pool {name}{STRONG:#}: {held} held of {limit}, {waiting} waiting"
        ));
        for (title, parties) in [("HOLDS", &pool.holders), ("WAITS", &pool.waiting)] {
            if parties.is_empty() {
                continue;
            }
            page.gap();
            page.add(grid(&heading(title), &rows(parties), width, None).text);
        }
        page.gap();
    }
    page.text()
}

fn heading(title: &str) -> Vec<String> {
    [title, "FENCE", "PRIO", "SINCE", "LEFT", "RUN"]
        .map(str::to_owned)
        .to_vec()
}

fn rows(parties: &[Party]) -> Vec<Vec<Cell>> {
    let row = |party: &Party| {
        let run = if party.occupied {
            "somebody else's".to_owned()
        } else {
            line(&party.run).into_owned()
        };
        let cells = [
            line(&party.node).into_owned(),
            party.fence.to_string(),
            party.priority.to_string(),
            format!("{} s", party.age),
            format!("{} s", party.expires),
            run,
        ];
        cells.map(Cell::plain).to_vec()
    };
    parties.iter().map(row).collect()
}

/// Whether these holders shall lose their permits.
pub fn question(pool: &str, live: &[&Party]) -> String {
    let mut page = Page::default();
    for holder in live {
        let (node, run) = (line(&holder.node), line(&holder.run));
        let (fence, age) = (holder.fence, holder.age);
        page.line(format_args!(
            "{node} holds permit {fence} of {}, for run {run}, since {age} s; the run will be stopped",
            line(pool)
        ));
    }
    page.add("Go on? [y/N]");
    page.text()
}

/// The document for programs.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Document<'a> {
    schema: &'static str,
    pools: &'a [Pool],
    request_stats: Stats<'a>,
}

impl<'a> Document<'a> {
    /// The document of these.
    pub fn new(pools: &'a [Pool], report: &'a Report) -> Self {
        Self {
            schema: "muster.permits.v1",
            pools,
            request_stats: Stats::new(&report.stats),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Pool, list, pools, question, show};
    use crate::render::fixtures::{plain, reply, report};
    use crate::render::{WIDTH, is_within_width};

    fn party(node: &str, fence: u64, occupied: bool) -> Value {
        json!({"node": node, "run": "019a9f2e-7c1b-7d44-9a57-0e6f5c1d2b3a", "fence": fence, "priority": 0,
               "limit": if occupied { 0 } else { 2 }, "age": 12, "expires": 48, "occupied": occupied})
    }

    #[test]
    fn pools_with_holders_and_without() {
        let told = json!({"pools": [
            {"pool": "puppet", "holders": [party("web1.example.net", 41, false), party("web2.example.net", 44, true)],
             "waiting": [party("web3.example.net\u{1b}[2J", 47, false)]},
            {"pool": "night", "holders": [], "waiting": []},
            {"nonsense": true},
        ], "holders": 2, "waiting": 1});
        let report = report("permit", "list", vec![reply("web1", 0, "OK", told)]);
        let pools = pools(&report);
        let live: Vec<_> = pools.iter().flat_map(Pool::holders).take(1).collect();
        let texts = [
            list(&pools, WIDTH),
            show(&pools, WIDTH),
            question("puppet", &live),
        ];
        let text = plain(&texts.join("\n---\n"));
        assert!(
            text.lines()
                .take_while(|line| !line.contains("holds permit"))
                .all(is_within_width),
            "{text}"
        );
        insta::assert_snapshot!("permit", text);
    }
}
