//! Filters of facts, classes and identities: parsing and matching.

use muster_filter::state::NodeFacts;
use muster_filter::{FactTerm, NodeFilter};
use serde_json::json;

use super::Agreement::{self, Different, Equal, Refused};
use super::{Comparison, compare, view_of};

const QUERY: &str = "a query inside a path is written as a document or in PQL, for `-Q`";
const INVERTED: &str = "Choria answers `!=` of a false fact the wrong way round";

fn facts() -> NodeFacts {
    NodeFacts::from_value(json!({
        "owner": "Blue Team", "cpus": 1, "load": 1.2, "virtual": true, "laptop": false,
        "site": {"owner": "Green Team", "racks": 2, "height": 2.2},
    }))
    .unwrap()
}

/// Whether a filter matches the node, as text, or why it is refused.
fn answer(filter: Result<NodeFilter, muster_filter::FilterError>) -> Result<String, String> {
    let facts = facts();
    let classes = ["role::backup".to_owned(), "ntp".to_owned()];
    let node = view_of(&facts, &classes);
    filter.map(|filter| filter.matches(&node).to_string()).map_err(|error| error.to_string())
}

#[test]
fn facts_match_as_in_choria() {
    let cases: &[(&str, bool, Agreement)] = &[
        ("owner=Blue Team", true, Equal),
        ("owner=bLuE tEAM", true, Equal),
        ("owner=BlueTeam", false, Equal),
        ("owner!=Blue Team", false, Equal),
        ("owner!=bLuE tEAM", false, Equal),
        ("owner!=BlueTeam", true, Equal),
        ("owner=~/team/", true, Equal),
        ("owner=~/TeAm/", true, Equal),
        ("owner=~/crew/", false, Equal),
        ("owner<b", false, Equal),
        ("owner<B", false, Equal),
        ("owner<c", true, Equal),
        ("owner<C", true, Equal),
        ("owner>b", true, Equal),
        ("owner>B", true, Equal),
        ("owner>c", false, Equal),
        ("owner>C", false, Equal),
        ("site.owner=green team", true, Equal),
        ("site.racks=2", true, Equal),
        ("cpus=2", false, Equal),
        ("cpus!=1", false, Equal),
        ("cpus>=1", true, Equal),
        ("cpus>1", false, Equal),
        ("cpus<10", true, Equal),
        ("site.height=2.2", true, Equal),
        ("load=1.2", true, Equal),
        (r"load=~/1\.\d+/", true, Equal),
        ("load!=1.2", false, Equal),
        ("load<=1.01", false, Equal),
        ("load>=1", true, Equal),
        ("load<10", true, Equal),
        ("load<1.0", false, Equal),
        ("load>10", false, Equal),
        ("load>1.0", true, Equal),
        ("virtual=true", true, Equal),
        ("virtual=T", true, Equal),
        ("virtual=1", true, Equal),
        ("virtual=t", true, Equal),
        ("virtual=false", false, Equal),
        ("virtual!=alice", true, Equal),
        ("virtual!=false", true, Equal),
        ("virtual!=T", false, Equal),
        ("laptop=false", true, Equal),
        ("laptop=F", true, Equal),
        ("laptop=0", true, Equal),
        ("laptop=f", true, Equal),
        ("laptop=true", false, Equal),
        ("laptop!=alice", true, Equal),
        ("laptop!=true", false, Different(INVERTED)),
        ("laptop!=false", true, Different(INVERTED)),
    ];
    let asked = cases.iter().map(|(text, choria, expected)| Comparison {
        question: (*text).to_owned(),
        choria: choria.to_string(),
        muster: answer(NodeFilter::default().with_fact(text)),
        expected: *expected,
    });
    compare("facts", &asked.collect::<Vec<_>>());
}

#[test]
fn classes_and_identities_match_as_in_choria() {
    let filter = NodeFilter::default;
    let names =
        |names: &[&str]| names.iter().try_fold(filter(), |filter, name| filter.with_identity(name));
    let facts =
        |facts: [&str; 2]| facts.iter().try_fold(filter(), |filter, fact| filter.with_fact(fact));
    let several = facts(["owner=blue team", "site.owner=green team"]);
    let one_fails = facts(["owner=blue team", "site.owner=fail"]);
    let cases = [
        ("class /backup/", true, filter().with_class("/backup/")),
        ("class /apache/", false, filter().with_class("/apache/")),
        ("class role::backup", true, filter().with_class("role::backup")),
        ("class apache", false, filter().with_class("apache")),
        ("identity web, mail, /example/", true, names(&["web", "mail", "/example/"])),
        ("identity web, mail, /lab/", false, names(&["web", "mail", "/lab/"])),
        ("identity web, mail, db7.example.net", true, names(&["web", "mail", "db7.example.net"])),
        ("identity web, mail, db", false, names(&["web", "mail", "db"])),
        ("two facts that match", true, several),
        ("two facts of which one matches", false, one_fails),
    ];
    let asked = cases.into_iter().map(|(question, choria, filter)| Comparison {
        question: question.to_owned(),
        choria: choria.to_string(),
        muster: answer(filter),
        expected: Equal,
    });
    compare("classes and identities", &asked.collect::<Vec<_>>());
}

/// The parts as `FACT OPERATOR VALUE`.
fn parts(text: &str) -> Result<String, String> {
    let term = FactTerm::parse(text).map_err(|error| error.to_string())?;
    Ok(format!("{} {} {}", term.fact_path(), term.operator().as_str(), term.value_text()))
}

#[test]
fn texts_of_fact_filters_are_read_as_in_choria() {
    let cases: &[(&str, &str, Agreement)] = &[
        ("site=/eu/", "site =~ /eu/", Equal),
        ("site = /eu/", "site =~ /eu/", Equal),
        ("site=eu", "site == eu", Equal),
        ("site = eu", "site == eu", Equal),
        ("site=~eu", "site =~ /eu/", Equal),
        ("site =~ eu", "site =~ /eu/", Equal),
        ("site=>eu", "site >= eu", Equal),
        ("site => eu", "site >= eu", Equal),
        ("site=<eu", "site <= eu", Equal),
        ("site =< eu", "site <= eu", Equal),
        ("site<=eu", "site <= eu", Equal),
        ("site <= eu", "site <= eu", Equal),
        ("site>=eu", "site >= eu", Equal),
        ("site >= eu", "site >= eu", Equal),
        ("site<eu", "site < eu", Equal),
        ("site < eu", "site < eu", Equal),
        ("site>eu", "site > eu", Equal),
        ("site > eu", "site > eu", Equal),
        ("site!=eu", "site != eu", Equal),
        ("site != eu", "site != eu", Equal),
        ("site==eu", "site == eu", Equal),
        ("site == eu", "site == eu", Equal),
        ("disks.#(name=\"sda\").gib==64", "disks.#(name=\"sda\").gib == 64", Refused(QUERY)),
        ("disks.#(name='sda').gib==64", "disks.#(name='sda').gib == 64", Refused(QUERY)),
        ("disks.#(name==\"sda\").gib=64", "disks.#(name==\"sda\").gib == 64", Refused(QUERY)),
        ("disks.#(name=\"sda\").gib == 64", "disks.#(name=\"sda\").gib == 64", Refused(QUERY)),
        ("disks.#(name<= \"sda\" ).gib==64", "disks.#(name<= \"sda\" ).gib == 64", Refused(QUERY)),
        ("disks.#(name=\"a b\").gib=>1 2", "disks.#(name=\"a b\").gib >= 1 2", Refused(QUERY)),
    ];
    let asked = cases.iter().map(|(text, choria, expected)| Comparison {
        question: (*text).to_owned(),
        choria: (*choria).to_owned(),
        muster: parts(text),
        expected: *expected,
    });
    let refused = ["siteeucity", "=site(eu=city)", "site=", "site(eu=city)>", "=><=="];
    let refused = refused.map(|text| Comparison {
        question: text.to_owned(),
        choria: "refused".to_owned(),
        muster: parts(text).or_else(|_| Ok("refused".to_owned())),
        expected: Equal,
    });
    compare("texts of fact filters", &asked.chain(refused).collect::<Vec<_>>());
}
