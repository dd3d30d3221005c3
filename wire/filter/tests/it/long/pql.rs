//! Queries in PQL, compared with a real `PuppetDB`: the committed ones, and random ones over random nodes.

#![expect(clippy::print_stdout, reason = "prints the seed and the counts")]

use super::puppetdb::PuppetDb;
use super::random_queries::RandomQueries;
use crate::pql_answers::{AnswerCounts, RecordedAnswers, select_nodes};

/// Random queries per run; `MUSTER_PQL_QUERIES` sets another number.
const QUERIES: usize = 2000;
/// Nodes with random facts.
const NODES: usize = 60;

fn number_from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

#[test]
fn puppetdb_answers_recorded_and_random_queries_equally() {
    let Some(server) = PuppetDb::start() else { return };
    compare_recorded_answers(&server);
    compare_random_queries(&server);
}

fn compare_recorded_answers(server: &PuppetDb) {
    let mut recorded = RecordedAnswers::read();
    server.load(&recorded.nodes);
    let mut different = Vec::new();
    for query in &mut recorded.queries {
        let selected = server.select(&recorded.nodes, &query.query);
        if selected != query.selected {
            different.push(query.query.clone());
        }
        query.selected = selected;
        query.refused = select_nodes(&recorded.nodes, &query.query).err();
    }
    println!(
        "recorded: {} of {} queries have other answers",
        different.len(),
        recorded.queries.len()
    );
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        recorded.write();
    } else {
        assert!(different.is_empty(), "PuppetDB has other answers to:\n{}", different.join("\n"));
    }
}

fn compare_random_queries(server: &PuppetDb) {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let seed = number_from_environment("MUSTER_SEED").unwrap_or(now.as_secs());
    let count = number_from_environment("MUSTER_PQL_QUERIES")
        .map_or(QUERIES, |count| usize::try_from(count).unwrap());
    println!(
        "random: seed {seed} (repeat with MUSTER_SEED={seed}), {NODES} nodes, {count} queries"
    );
    let mut random = RandomQueries::new(seed);
    let nodes = random.nodes(NODES);
    server.load(&nodes);
    let mut counts = AnswerCounts::default();
    for _ in 0..count {
        let query = random.query();
        counts.add(&nodes, &query, server.select(&nodes, &query).as_deref());
    }
    let AnswerCounts { equal, refused, invalid, different } = counts;
    println!(
        "random: {equal} equal, {refused} refused only here, {invalid} refused by both, {} different",
        different.len()
    );
    assert!(different.is_empty(), "seed {seed}:\n{}", different.join("\n"));
    assert!(equal * 2 > count, "most random queries must be answered, not {equal} of {count}");
}
