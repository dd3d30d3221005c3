//! What the prompt shows, from facts, state and the fragments of `prompt.d`. Pure.

use muster_api::filter::state::NodeFacts;
use muster_contract::motd::{PromptSegment, PromptStatus, prompt_word};
use muster_contract::puppet::PuppetRunClass;
use serde::Deserialize as _;
use serde_json::{Map, Value};

use crate::motd::MotdOptions;
use crate::motd::renderer::NodeSnapshot;

/// Most words of each kind.
const MAX_WORDS: usize = 32;

/// The prompt of a node; `blocks` are the rendered fragments.
pub(crate) fn prompt_status(
    options: &MotdOptions,
    node: &NodeSnapshot,
    blocks: &[String],
) -> PromptStatus {
    let facts = options.prompt_facts.iter().take(MAX_WORDS);
    let segments = facts.filter_map(|path| {
        let value = node.facts.get(path).and_then(scalar_text)?;
        let text = prompt_word(&value)?;
        Some(PromptSegment { color: options.prompt_colors.get(&value).copied(), text })
    });
    let lines = blocks.iter().flat_map(|block| block.lines());
    let state = node.state.as_deref().map(NodeFacts::as_map);
    PromptStatus {
        segments: segments.collect(),
        roles: lines.filter_map(prompt_word).take(MAX_WORDS).collect(),
        warnings: state.map(warnings_of).unwrap_or_default(),
    }
}

/// Reasons to look closer, the most important one first.
fn warnings_of(state: &Map<String, Value>) -> Vec<String> {
    let puppet = state.get("puppet");
    let mut warnings = Vec::new();
    if puppet.and_then(|puppet| puppet.get("disabled")) == Some(&Value::Bool(true)) {
        warnings.push("puppet-disabled".to_owned());
    }
    let class = puppet.and_then(|puppet| puppet.pointer("/last_run/class"));
    let class = class.and_then(|class| PuppetRunClass::deserialize(class).ok());
    // Pending refreshes have a word of their own.
    if class.is_some_and(|class| !class.is_success() && class != PuppetRunClass::Pending) {
        warnings.push("run-failed".to_owned());
    }
    let critical = state.get("checks").and_then(|checks| checks.get("critical"));
    if let Some(count) = critical.and_then(Value::as_u64).filter(|count| *count > 0) {
        warnings.push(format!("checks-critical:{count}"));
    }
    let pending = state.get("ledger").and_then(|ledger| ledger.get("pending"));
    if let Some(count) = pending.and_then(Value::as_u64).filter(|count| *count > 0) {
        warnings.push(format!("refreshes-pending:{count}"));
    }
    for flag in ["oscillating", "pending"] {
        let again = state.get("again").and_then(|again| again.get(flag));
        if again == Some(&Value::Bool(true)) {
            warnings.push(format!("again-{flag}"));
        }
    }
    warnings
}

fn scalar_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use muster_contract::motd::TerminalColor;
    use serde_json::json;

    use super::*;
    use crate::motd::tests::snapshot;

    #[test]
    fn facts_roles_and_state_become_words() {
        let node = snapshot(
            &json!({"customer": "acme", "environment": "production", "rack": 7}),
            &["apache"],
            &json!({"puppet": {"disabled": true, "last_run": {"class": "failed+changed"}}, "ledger": {"pending": 2}, "checks": {"critical": 1},
                "again": {"pending": true, "running": false, "oscillating": true}}),
        );
        let prompt_facts = ["customer", "environment", "rack", "none"].map(str::to_owned).to_vec();
        let options = MotdOptions { prompt_facts, ..MotdOptions::default() };
        let status = prompt_status(&options, &node, &["web\n".to_owned(), "\ndb\n".to_owned()]);
        let segments = status.segments.iter().map(|segment| (segment.text.as_str(), segment.color));
        let expected = [("acme", None), ("production", Some(TerminalColor::Red)), ("7", None)];
        assert_eq!(segments.collect::<Vec<_>>(), expected);
        assert_eq!(status.roles, ["web", "db"]);
        let expected = [
            "puppet-disabled",
            "run-failed",
            "checks-critical:1",
            "refreshes-pending:2",
            "again-oscillating",
            "again-pending",
        ];
        assert_eq!(status.warnings, expected);
        let unknown = NodeSnapshot { state: None, ..node };
        assert_eq!(prompt_status(&options, &unknown, &[]).warnings, [""; 0]);
    }
}
