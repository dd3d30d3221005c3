//! What filters make of the nodes of a saved inventory.

use muster_client::discovery::inventory::Judgement;
use muster_wire::filter::Truth;
use muster_wire::identity::Identity;
use serde::Serialize;

use super::page::Page;
use super::plan::counted;
use super::printable::line;
use crate::exit::Exit;
use crate::printer::{BAD, GOOD, WARNING};

/// The document for programs.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Document<'a> {
    schema: &'static str,
    /// The filter in English; groups of the inventory are not in it.
    filter: String,
    matching: usize,
    not_matching: usize,
    unknown: usize,
    nodes: Vec<NodeDocument<'a>>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct NodeDocument<'a> {
    node: &'a Identity,
    verdict: Verdict,
    /// The data sources that the node would have to ask, while it is unknown whether it matches.
    asks: Vec<String>,
    conditions: Vec<ConditionDocument<'a>>,
}

/// Whether a node is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Match,
    NoMatch,
    Unknown,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ConditionDocument<'a> {
    condition: &'a str,
    holds: Holds,
}

/// Whether a condition holds.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
enum Holds {
    Yes,
    No,
    Unknown,
}

impl From<Truth> for Verdict {
    fn from(truth: Truth) -> Self {
        match truth {
            Truth::True => Self::Match,
            Truth::False => Self::NoMatch,
            Truth::Unknown => Self::Unknown,
        }
    }
}

impl From<Truth> for Holds {
    fn from(truth: Truth) -> Self {
        match truth {
            Truth::True => Self::Yes,
            Truth::False => Self::No,
            Truth::Unknown => Self::Unknown,
        }
    }
}

impl<'a> Document<'a> {
    /// What became of these nodes.
    pub fn new(filter: String, judged: &'a [Judgement]) -> Self {
        let count = |truth| {
            let of = judged.iter().filter(|judgement| judgement.verdict == truth);
            of.count()
        };
        Self {
            schema: "muster.filter.test.v1",
            filter,
            matching: count(Truth::True),
            not_matching: count(Truth::False),
            unknown: count(Truth::Unknown),
            nodes: judged.iter().map(NodeDocument::new).collect(),
        }
    }

    /// A line for each node; with details one for each condition, too.
    pub fn text(&self, verbose: bool) -> String {
        let names = self.nodes.iter().map(|node| node.node.as_str().len());
        let widest = names.max().unwrap_or(0);
        let mut page = Page::default();
        for node in &self.nodes {
            let (style, word) = match node.verdict {
                Verdict::Match => (GOOD, "match"),
                Verdict::NoMatch => (BAD, "no match"),
                Verdict::Unknown => (WARNING, "unknown"),
            };
            page.add(format_args!(
                "{:<widest$}  {style}{word}{style:#}",
                node.node.as_str()
            ));
            if node.asks.is_empty() {
                page.line("");
            } else {
                page.line(format_args!(", would ask {}", line(&node.asks.join(", "))));
            }
            for ConditionDocument { condition, holds } in node.conditions.iter().filter(|_| verbose)
            {
                let word = match holds {
                    Holds::Yes => "holds",
                    Holds::No => "does not",
                    Holds::Unknown => "unknown",
                };
                page.line(format_args!("    {word:<8}  {}", line(condition)));
            }
        }
        page.text()
    }

    /// How many nodes match, and how many do not.
    pub fn balance(&self) -> String {
        let of = counted(self.nodes.len());
        match self.unknown {
            0 => format!("{} of {of} match", self.matching),
            unknown => format!("{} of {of} match, {unknown} may", self.matching),
        }
    }

    /// How the command ends.
    pub fn exit(&self) -> Exit {
        match (self.unknown, self.matching) {
            (0, 0) => Exit::Local,
            (0, _) => Exit::Passed,
            _ => Exit::SomeFailed,
        }
    }
}

impl<'a> NodeDocument<'a> {
    fn new(judgement: &'a Judgement) -> Self {
        let conditions = judgement.conditions.iter();
        Self {
            node: &judgement.node,
            verdict: judgement.verdict.into(),
            asks: judgement.asks.iter().map(ToString::to_string).collect(),
            conditions: conditions
                .map(|(condition, truth)| ConditionDocument {
                    condition,
                    holds: (*truth).into(),
                })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_client::discovery::inventory::Judgement;
    use muster_wire::filter::Truth;

    use super::Document;
    use crate::exit::Exit;

    fn judgement(node: &str, verdict: Truth) -> Judgement {
        let asks = match verdict {
            Truth::Unknown => vec!["service(\"sshd\")".parse().unwrap()],
            _ => Vec::new(),
        };
        Judgement {
            node: node.parse().unwrap(),
            verdict,
            asks,
            conditions: vec![("-C apache".to_owned(), verdict)],
        }
    }

    #[test]
    fn each_node_has_its_verdict_and_its_reasons() {
        let judged = [
            judgement("web1.acme.net", Truth::True),
            judgement("db1", Truth::False),
            judgement("db2", Truth::Unknown),
        ];
        let document = Document::new("all nodes".to_owned(), &judged);
        let text = anstream::adapter::strip_str(&document.text(false)).to_string();
        assert_eq!(
            text,
            "web1.acme.net  match\n\
             db1            no match\n\
             db2            unknown, would ask service(\"sshd\")\n"
        );
        let text = document.text(true);
        assert!(text.contains("\n    does not  -C apache\n"), "{text}");
        assert_eq!(document.balance(), "1 of 3 nodes match, 1 may");
    }

    #[test]
    fn the_exit_code_tells_whether_all_is_known() {
        for (verdicts, exit) in [
            (&[][..], Exit::Local),
            (&[Truth::False], Exit::Local),
            (&[Truth::True, Truth::False], Exit::Passed),
            (&[Truth::True, Truth::Unknown], Exit::SomeFailed),
            (&[Truth::Unknown], Exit::SomeFailed),
        ] {
            let judged: Vec<_> = verdicts.iter().map(|one| judgement("a", *one)).collect();
            let document = Document::new(String::new(), &judged);
            assert_eq!(document.exit(), exit, "{verdicts:?}");
        }
    }
}
