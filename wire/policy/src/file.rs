//! One policy file: its rules in order, and its default.

use std::collections::BTreeSet;

use muster_filter::{DataLookup, EvaluationProgress};

use super::explain::ExplanationStep;
use super::fault::{LocatedFault, PolicyFault, PolicyLineFault};
use super::groups::CallerGroups;
use super::rule::{PolicyRule, RuleMatch};
use super::span::{LineSpan, policy_lines};
use super::{EvaluationInput, RuleVerdict};

/// Most rules in one file: each request may evaluate all of them.
const MAX_POLICY_RULES: usize = 4096;
/// Most distinct data source lookups in one file: each request may perform all of them.
pub const MAX_POLICY_LOOKUPS: usize = 64;
/// Most faults reported per file.
const MAX_REPORTED_FAULTS: usize = 32;

/// A completely parsed policy file.
#[derive(Debug, Clone)]
pub struct PolicyFile {
    rules: Vec<PolicyRule>,
    default: Option<(usize, RuleVerdict)>,
    /// The data source lookups of all rules.
    lookups: BTreeSet<DataLookup>,
}

impl PolicyFile {
    /// Parses the whole file. Returns its valid rules, and all faults in line order. A file with a fault must not be used, because the line may have
    /// been a `deny`; its rules are for checks only.
    pub fn parse(text: &str, groups: &CallerGroups) -> (Self, Vec<PolicyLineFault>) {
        let mut file = Self { rules: Vec::new(), default: None, lookups: BTreeSet::new() };
        let mut faults = Vec::new();
        for (line, span) in policy_lines(text) {
            if let Err(found) = file.add_line(line, span, groups) {
                let to_fault = |(column, fault)| PolicyLineFault { line, column, fault };
                faults.extend(found.into_iter().map(to_fault));
            }
            if faults.len() >= MAX_REPORTED_FAULTS || file.rules.len() > MAX_POLICY_RULES {
                break;
            }
        }
        (file, faults)
    }

    fn add_line(
        &mut self,
        line: usize,
        span: LineSpan<'_>,
        groups: &CallerGroups,
    ) -> Result<(), Vec<LocatedFault>> {
        let words: Vec<LineSpan<'_>> = span.split_words().collect();
        if let [policy, default, word] = *words
            && (policy.text(), default.text()) == ("policy", "default")
        {
            let verdict = RuleVerdict::from_word(word.text())
                .ok_or_else(|| vec![(word.column(), PolicyFault::Unknown)])?;
            if let Some((first, _)) = self.default {
                return Err(vec![(span.column(), PolicyFault::SecondDefault(first))]);
            }
            self.default = Some((line, verdict));
            return Ok(());
        }
        if self.rules.len() == MAX_POLICY_RULES {
            return Err(vec![(span.column(), PolicyFault::TooMany(MAX_POLICY_RULES))]);
        }
        let rule = PolicyRule::parse_line(line, span, groups)?;
        self.lookups.extend(rule.data_lookups().cloned());
        if self.lookups.len() > MAX_POLICY_LOOKUPS {
            return Err(vec![(span.column(), PolicyFault::TooManyLookups(MAX_POLICY_LOOKUPS))]);
        }
        self.rules.push(rule);
        Ok(())
    }

    /// The rules in order.
    pub fn rules(&self) -> &[PolicyRule] {
        &self.rules
    }

    /// The verdict if no rule matches, and its line.
    pub fn default_verdict(&self) -> Option<(usize, RuleVerdict)> {
        self.default
    }

    /// The data source lookups that evaluation may need.
    pub fn data_lookups(&self) -> impl Iterator<Item = &DataLookup> {
        self.lookups.iter()
    }

    /// The first rule that decides a query, and its match result; or the next needed lookup.
    pub(super) fn find_deciding_rule(
        &self,
        input: EvaluationInput<'_>,
    ) -> EvaluationProgress<'_, Option<(&PolicyRule, RuleMatch)>> {
        for rule in &self.rules {
            match rule.match_query(input) {
                EvaluationProgress::Decided(rule_match) if rule.decides_with(rule_match) => {
                    return EvaluationProgress::Decided(Some((rule, rule_match)));
                }
                EvaluationProgress::Decided(_) => {}
                EvaluationProgress::Needs(lookup) => return EvaluationProgress::Needs(lookup),
            }
        }
        EvaluationProgress::Decided(None)
    }

    /// The explanation of each rule up to the deciding one, if all required lookups are known.
    pub(super) fn explain_rules(&self, input: EvaluationInput<'_>) -> Vec<ExplanationStep> {
        let mut steps = Vec::new();
        for rule in &self.rules {
            let EvaluationProgress::Decided(rule_match) = rule.match_query(input) else { break };
            let is_unknown = rule_match == RuleMatch::Unknown;
            steps.push(ExplanationStep {
                line: rule.line_number(),
                text: rule.text().to_owned(),
                verdict: rule.verdict(),
                mismatch: rule.explain_mismatch(rule_match, input),
                unknown: if is_unknown { rule.unknown_conditions(input) } else { Vec::new() },
            });
            if rule.decides_with(rule_match) {
                break;
            }
        }
        steps
    }
}
