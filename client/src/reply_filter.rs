//! Evaluates `--filter-replies`: selects replies by an expression in the language of `--select`, with functions for replies:
//! `ok() and data("status") == "stopped"`. A pure function of a reply.
//!
//! `data().status` is an output that the action declares; its type is checked before the request is sent. `data("os.family")` is any value in the
//! reply's data, declared or not.

use std::sync::Arc;

use muster_ddl::ActionSchema;
use muster_filter::state::{FactPath, NodeFacts, NodeView};
use muster_filter::{
    DataLookup, DataLookupResult, DeclaredQuery, DeclaredSource, DeclaredSources,
    EvaluationProgress, FilterError, KnownLookups, OutputKind, SelectExpression, TruthValue,
};
use muster_wire::status::{ReplyReason, ReplyStatus};
use serde_json::{Map, Value, json};

use crate::node_reply::NodeReply;

/// A boolean function of a reply, without arguments.
type OutcomeFunction = fn(&NodeReply) -> bool;

/// The boolean functions, by name.
const OUTCOME_FUNCTIONS: [(&str, OutcomeFunction); 9] = [
    ("ok", |reply| reply.is_ok()),
    ("failed", |reply| !reply.is_ok()),
    ("aborted", |reply| reply.status == ReplyStatus::Failed),
    ("unknown_action", |reply| reply.status == ReplyStatus::UnknownAction),
    ("missing_data", |reply| reply.status == ReplyStatus::MissingData),
    ("invalid_data", |reply| reply.status == ReplyStatus::InvalidData),
    ("unknown_error", |reply| reply.status == ReplyStatus::Other),
    ("denied", |reply| matches!(reply.reason, Some(ReplyReason::Denied { .. }))),
    ("timeout", |reply| matches!(reply.reason, Some(ReplyReason::Timeout { .. }))),
];
/// Names of a reply's properties.
const REPLY_WORDS: [&str; 3] = ["code", "msg", "time"];
/// The function for a reply's data.
const DATA_FUNCTION: &str = "data";
/// The expression language's name of a function's own value.
const OWN_VALUE: &str = "";

/// A valid expression over replies.
#[derive(Debug, Clone)]
pub struct ReplyFilter(SelectExpression);

/// Why an expression is invalid.
#[derive(Debug, thiserror::Error)]
pub enum ReplyFilterError {
    /// A syntax error.
    #[error(transparent)]
    Read(#[from] FilterError),
    /// An unknown name.
    #[error("replies have no field {name:?}; use code, msg or time, or data().name for outputs")]
    UnknownField {
        /// The name.
        name: String,
    },
    /// A name without a comparison, which would be a node's class.
    #[error("a name alone is not a condition for replies; write ok(), or data().name == \"value\"")]
    Name,
    /// A use of `data()` without an output, or with a path below one.
    #[error(
        "{text} specifies no output; write data().name, or data(\"name.below\") for a value inside an output"
    )]
    Data {
        /// The given text.
        text: String,
    },
}

impl ReplyFilter {
    /// Parses an expression over replies of this action.
    pub fn new(text: &str, action: &ActionSchema) -> Result<Self, ReplyFilterError> {
        let select = SelectExpression::parse_declared(text, &declare_functions(action))?;
        if select.has_name_conditions() {
            return Err(ReplyFilterError::Name);
        }
        for (lookup, output) in select.source_outputs() {
            let by_path = lookup.query.is_some();
            if lookup.source == DATA_FUNCTION && by_path != (output == OWN_VALUE) {
                let text = match output {
                    OWN_VALUE => lookup.to_string(),
                    output => format!("{lookup}.{output}"),
                };
                return Err(ReplyFilterError::Data { text });
            }
        }
        let unknown =
            select.fact_paths().into_iter().find(|path| !REPLY_WORDS.contains(&path.as_str()));
        match unknown {
            Some(path) => Err(ReplyFilterError::UnknownField { name: path.as_str().to_owned() }),
            None => Ok(Self(select)),
        }
    }

    /// Whether the reply is selected. A missing value never compares as equal or found.
    pub fn accepts(&self, reply: &NodeReply) -> bool {
        let fields = Map::from_iter([
            ("code".to_owned(), json!(reply.status)),
            ("msg".to_owned(), json!(reply.message)),
            ("time".to_owned(), json!(reply.took)),
        ]);
        // Properties and outputs beyond the limits of facts count as missing.
        let fields = NodeFacts::from_map(fields).unwrap_or_default();
        let data = NodeFacts::from_map(reply.data.clone()).unwrap_or_default();
        let view = NodeView::new(reply.node.as_str(), &fields);
        let mut known = KnownLookups::default();
        loop {
            match self.0.evaluate(&view, &known) {
                EvaluationProgress::Decided(truth) => return truth == TruthValue::True,
                EvaluationProgress::Needs(lookup) => {
                    let found = match (lookup.source.as_str(), &lookup.query) {
                        (DATA_FUNCTION, None) => self.requested_outputs(reply),
                        _ => Map::from_iter([(
                            OWN_VALUE.to_owned(),
                            answer_lookup(reply, &data, lookup),
                        )]),
                    };
                    known.insert(lookup.clone(), DataLookupResult::Values(found));
                }
            }
        }
    }

    /// The outputs that the expression uses; missing ones are known to be null.
    fn requested_outputs(&self, reply: &NodeReply) -> Map<String, Value> {
        let outputs = self.0.source_outputs().into_iter();
        let outputs =
            outputs.filter(|(lookup, _)| lookup.source == DATA_FUNCTION && lookup.query.is_none());
        let value = |name: &str| reply.data.get(name).cloned().unwrap_or_default();
        outputs.map(|(_, name)| (name.to_owned(), value(name))).collect()
    }
}

fn declare_functions(action: &ActionSchema) -> DeclaredSources {
    let mut functions = DeclaredSources::default();
    let own_value = |kind| [(OWN_VALUE.to_owned(), kind)].into();
    for (name, _) in OUTCOME_FUNCTIONS {
        let source = DeclaredSource { query: None, outputs: own_value(OutputKind::Boolean) };
        functions.declare_source(name, source);
    }
    let source = DeclaredSource { query: None, outputs: own_value(OutputKind::Text) };
    functions.declare_source("sender", source);
    let query = DeclaredQuery {
        optional: true,
        prompt: "the name of an output, such as \"status\" or \"os.family\"".to_owned(),
        check: Arc::new(|path| FactPath::parse(path).map(drop).map_err(Into::into)),
    };
    let outputs = action.outputs().iter();
    let outputs =
        outputs.map(|output| (output.name.clone(), muster_calls::value_kind(output.value_type)));
    let source = DeclaredSource {
        query: Some(query),
        outputs: outputs.chain(own_value(OutputKind::Any)).collect(),
    };
    functions.declare_source(DATA_FUNCTION, source);
    functions
}

fn answer_lookup(reply: &NodeReply, data: &NodeFacts, lookup: &DataLookup) -> Value {
    match (lookup.source.as_str(), &lookup.query) {
        ("sender", _) => Value::from(reply.node.as_str()),
        (DATA_FUNCTION, Some(path)) => {
            let path = FactPath::parse(path).ok();
            path.and_then(|path| data.get_path(&path)).cloned().unwrap_or_default()
        }
        (name, _) => {
            let mut functions = OUTCOME_FUNCTIONS.into_iter();
            functions
                .find(|(known, _)| *known == name)
                .map_or(Value::Null, |(_, holds)| holds(reply).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_ddl::AgentDdl;
    use muster_wire::status::ReplyReason;
    use serde_json::json;

    use super::{ReplyFilter, ReplyFilterError};
    use crate::testing::reply;

    fn ddl() -> AgentDdl {
        let output = |kind: &str| json!({"description": "d", "display_as": "D", "type": kind});
        let ddl = json!({
            "metadata": {"name": "work", "description": "d", "author": "a", "license": "l", "version": "1.0.0", "url": "u", "timeout": 5},
            "actions": [{"action": "do", "description": "d", "display": "always", "input": {}, "output": {
                "status": output("string"), "n": output("integer"), "tags": output("array"), "on": output("boolean"),
            }}],
        });
        AgentDdl::from_slice(ddl.to_string().as_bytes()).unwrap()
    }

    fn filter(text: &str) -> Result<ReplyFilter, ReplyFilterError> {
        ReplyFilter::new(text, ddl().find_action("do").unwrap())
    }

    #[test]
    fn filters_select_replies() {
        let data =
            json!({"status": "stopped", "n": 3, "tags": ["a", "b"], "os": {"family": "Debian"}});
        let good = reply("web1.example.net", 0, "OK", data);
        let mut bad = reply("db1.example.net", 5, "you may not", json!({}));
        bad.reason = Some(ReplyReason::Denied { rule: "default".to_owned() });
        for (text, of_good, of_bad) in [
            ("ok()", true, false),
            ("!ok()", false, true),
            ("failed()", false, true),
            ("failed() and denied()", false, true),
            ("aborted() or timeout() or missing_data()", false, false),
            ("unknown_error()", false, true),
            ("ok() && data(\"status\") == \"stopped\"", true, false),
            ("data(\"n\") >= 3", true, false),
            ("data('n') > 3", false, false),
            ("data(\"os.family\") =~ /^deb/i", true, false),
            ("include(data(\"tags\"), \"a\")", true, false),
            ("data(\"nothing\") == 1", false, false),
            ("code == 5 and msg =~ /may not/", false, true),
            ("data().status == stopped and data().n >= 3", true, false),
            ("data().status != stopped", false, true),
            ("data().on or data().on = false", false, false),
            ("include(data().tags, \"b\") and data().tags != c", true, false),
            ("time < 1000", true, true),
            ("sender() =~ /^web/", true, false),
            ("sender() == 'db1.example.net' or data('n') in [2, 3]", true, true),
        ] {
            let filter = filter(text).unwrap();
            assert_eq!((filter.accepts(&good), filter.accepts(&bad)), (of_good, of_bad), "{text}");
        }
    }

    #[test]
    fn refuses_expressions_that_do_not_apply_to_replies() {
        for text in [
            "ok",
            "kode == 1",
            "okay()",
            "data() == 1",
            "data(\"\") == 1",
            "ok() = 3",
            "sender()",
            "ok(",
            "",
            "with('a')",
            "agent('a')",
            "ok().x",
            "data()",
            "data(\"os\").status == 1",
        ] {
            assert!(filter(text).is_err(), "{text}");
        }
        let error = filter("kode == 1").unwrap_err();
        assert!(matches!(error, ReplyFilterError::UnknownField { name } if name == "kode"));
        let error = filter("okk()").unwrap_err();
        assert!(error.to_string().contains("ok"), "{error}");
    }

    #[test]
    fn outputs_are_checked_against_their_types_before_sending() {
        for (text, column, expected) in [
            ("ok() and data().stats == 1", 17, "did you mean status?"),
            ("data().n > many", 12, "a number"),
            ("data().status >= 3", 18, "semver("),
            ("data().status", 14, "a comparison after data().status"),
            ("data().on == maybe", 14, "true or false"),
            ("include(data().n, 3)", 9, "a list"),
        ] {
            let error = filter(text).unwrap_err();
            let ReplyFilterError::Read(error) = &error else {
                panic!("{text}: {error}");
            };
            assert!(error.expected().contains(expected), "{text}: {error}");
            assert_eq!(error.column(), column, "{text}: {error}");
        }
    }
}
