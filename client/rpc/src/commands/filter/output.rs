//! Renders the evaluation of a filter for a saved inventory.

use muster_calls::discovery::inventory::NodeEvaluation;
use muster_display::printer::{BAD, GOOD, WARNING};
use muster_display::{TextPage, node_count_text};
use muster_filter::TruthValue;
use muster_wire::identity::Identity;
use serde::Serialize;

use crate::outcome::exit::CommandExitCode;

/// The document for programs.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct FilterTestDocument<'a> {
    schema: &'static str,
    /// The filter in English, without groups of the inventory.
    filter: String,
    matching: usize,
    not_matching: usize,
    unknown: usize,
    nodes: Vec<FilterNodeDocument<'a>>,
}

#[derive(Debug, Serialize, schemars::JsonSchema)]
struct FilterNodeDocument<'a> {
    node: &'a Identity,
    verdict: FilterVerdict,
    /// The data sources that the node would query; empty unless the verdict is unknown.
    asks: Vec<String>,
    conditions: Vec<FilterConditionDocument<'a>>,
}

/// Whether a node matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
enum FilterVerdict {
    Match,
    NoMatch,
    Unknown,
}

#[derive(Debug, Serialize, schemars::JsonSchema)]
struct FilterConditionDocument<'a> {
    condition: &'a str,
    holds: ConditionOutcome,
}

/// Whether a condition is true.
#[derive(Debug, Clone, Copy, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ConditionOutcome {
    Yes,
    No,
    Unknown,
}

/// The value for this truth: for true, false, and unknown.
fn for_truth<T>(truth: TruthValue, [yes, no, unknown]: [T; 3]) -> T {
    match truth {
        TruthValue::True => yes,
        TruthValue::False => no,
        TruthValue::Unknown => unknown,
    }
}

impl<'a> FilterTestDocument<'a> {
    pub fn new(filter: String, evaluations: &'a [NodeEvaluation]) -> Self {
        let count =
            |truth| evaluations.iter().filter(|evaluation| evaluation.result == truth).count();
        Self {
            schema: "muster.filter.test.v1",
            filter,
            matching: count(TruthValue::True),
            not_matching: count(TruthValue::False),
            unknown: count(TruthValue::Unknown),
            nodes: evaluations.iter().map(FilterNodeDocument::new).collect(),
        }
    }

    /// Renders one line per node; verbose output adds one per condition.
    pub fn render_text(&self, verbose: bool) -> String {
        let names = self.nodes.iter().map(|node| node.node.as_str().len());
        let widest = names.max().unwrap_or(0);
        let mut page = TextPage::default();
        for node in &self.nodes {
            let (style, word) = match node.verdict {
                FilterVerdict::Match => (GOOD, "match"),
                FilterVerdict::NoMatch => (BAD, "no match"),
                FilterVerdict::Unknown => (WARNING, "unknown"),
            };
            let asks = node.asks.join(", ");
            let asks = if asks.is_empty() { asks } else { format!(", would query {asks}") };
            let name = node.node.as_str();
            page.push_line(format_args!("{name:<widest$}  {style}{word}{style:#}{asks}"));
            for FilterConditionDocument { condition, holds } in
                node.conditions.iter().filter(|_| verbose)
            {
                let word = match holds {
                    ConditionOutcome::Yes => "true",
                    ConditionOutcome::No => "false",
                    ConditionOutcome::Unknown => "unknown",
                };
                page.push_labels(4, 10, [(word, condition)]);
            }
        }
        page.into_text()
    }

    /// Number of nodes that match, and that do not.
    pub fn summary_line(&self) -> String {
        let nodes = node_count_text(self.nodes.len());
        match self.unknown {
            0 => format!("{} of {nodes} match", self.matching),
            unknown => format!("{} of {nodes} match, {unknown} may match", self.matching),
        }
    }

    pub fn exit_code(&self) -> CommandExitCode {
        match (self.unknown, self.matching) {
            (0, 0) => CommandExitCode::Local,
            (0, _) => CommandExitCode::Passed,
            _ => CommandExitCode::SomeFailed,
        }
    }
}

impl<'a> FilterNodeDocument<'a> {
    fn new(evaluation: &'a NodeEvaluation) -> Self {
        let verdicts = [FilterVerdict::Match, FilterVerdict::NoMatch, FilterVerdict::Unknown];
        let outcomes = [ConditionOutcome::Yes, ConditionOutcome::No, ConditionOutcome::Unknown];
        let conditions = evaluation.conditions.iter().map(|(condition, truth)| {
            FilterConditionDocument { condition, holds: for_truth(*truth, outcomes) }
        });
        Self {
            node: &evaluation.node,
            verdict: for_truth(evaluation.result, verdicts),
            asks: evaluation.needed_lookups.iter().map(ToString::to_string).collect(),
            conditions: conditions.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_calls::discovery::inventory::NodeEvaluation;
    use muster_filter::TruthValue;

    use super::FilterTestDocument;
    use crate::outcome::exit::CommandExitCode;

    fn judgement(node: &str, verdict: TruthValue) -> NodeEvaluation {
        let asks = match verdict {
            TruthValue::Unknown => vec!["service(\"sshd\")".parse().unwrap()],
            _ => Vec::new(),
        };
        NodeEvaluation {
            node: node.parse().unwrap(),
            result: verdict,
            needed_lookups: asks,
            conditions: vec![("-C apache".to_owned(), verdict)],
        }
    }

    #[test]
    fn each_node_has_its_result_and_conditions() {
        let judged = [
            judgement("web1.acme.net", TruthValue::True),
            judgement("db1", TruthValue::False),
            judgement("db2", TruthValue::Unknown),
        ];
        let document = FilterTestDocument::new("all nodes".to_owned(), &judged);
        let text = anstream::adapter::strip_str(&document.render_text(false)).to_string();
        assert_eq!(
            text,
            "web1.acme.net  match\n\
             db1            no match\n\
             db2            unknown, would query service(\"sshd\")\n"
        );
        let text = document.render_text(true);
        assert!(text.contains("\n    false     -C apache\n"), "{text}");
        assert_eq!(document.summary_line(), "1 of 3 nodes match, 1 may match");
    }

    #[test]
    fn exit_code_depends_on_matches_and_unknown_results() {
        for (verdicts, exit) in [
            (&[][..], CommandExitCode::Local),
            (&[TruthValue::False], CommandExitCode::Local),
            (&[TruthValue::True, TruthValue::False], CommandExitCode::Passed),
            (&[TruthValue::True, TruthValue::Unknown], CommandExitCode::SomeFailed),
            (&[TruthValue::Unknown], CommandExitCode::SomeFailed),
        ] {
            let judged: Vec<_> = verdicts.iter().map(|one| judgement("a", *one)).collect();
            let document = FilterTestDocument::new(String::new(), &judged);
            assert_eq!(document.exit_code(), exit, "{verdicts:?}");
        }
    }
}
