//! One policy file: its rules in their order, and its default.

use std::collections::BTreeSet;

use super::explain::Step;
use super::fault::{Flaw, PolicyFault};
use super::groups::Groups;
use super::rule::{Fit, Rule};
use super::span::{Span, lines};
use super::{Question, Verdict};
use crate::filter::{Known, Lookup, Progress};

/// Most rules in one file: each is looked at for each request.
const MAX_RULES: usize = 4096;
/// Most different questions to data sources in one file: each may cost the node something for each request.
pub const MAX_LOOKUPS: usize = 64;
/// So many things wrong with a file are told.
const MAX_FLAWS: usize = 32;

/// A file that was understood as a whole.
#[derive(Debug, Clone)]
pub struct PolicyFile {
    rules: Vec<Rule>,
    default: Option<(usize, Verdict)>,
    /// The questions to data sources of all rules.
    lookups: BTreeSet<Lookup>,
}

impl PolicyFile {
    /// Reads the whole file, or nothing of it: a line that is skipped may have been a `deny`. Then everything that is wrong with
    /// it, in the order of its lines.
    pub fn parse(text: &str, groups: &Groups) -> Result<Self, Vec<Flaw>> {
        let mut file = Self {
            rules: Vec::new(),
            default: None,
            lookups: BTreeSet::new(),
        };
        let mut flaws = Vec::new();
        for (line, span) in lines(text) {
            if let Err((column, fault)) = file.add(line, span, groups) {
                flaws.push(Flaw {
                    line,
                    column,
                    fault,
                });
            }
            if flaws.len() == MAX_FLAWS || file.rules.len() > MAX_RULES {
                break;
            }
        }
        if flaws.is_empty() {
            Ok(file)
        } else {
            Err(flaws)
        }
    }

    fn add(
        &mut self,
        line: usize,
        span: Span<'_>,
        groups: &Groups,
    ) -> Result<(), (usize, PolicyFault)> {
        let words: Vec<Span<'_>> = span.words().collect();
        if let [policy, default, word] = *words
            && (policy.text(), default.text()) == ("policy", "default")
        {
            let verdict =
                Verdict::read(word.text()).ok_or((word.column(), PolicyFault::Unknown))?;
            if let Some((first, _)) = self.default {
                return Err((span.column(), PolicyFault::SecondDefault(first)));
            }
            self.default = Some((line, verdict));
            return Ok(());
        }
        if self.rules.len() == MAX_RULES {
            return Err((span.column(), PolicyFault::TooMany(MAX_RULES)));
        }
        let rule = Rule::read(line, span, groups)?;
        self.lookups.extend(rule.lookups().cloned());
        if self.lookups.len() > MAX_LOOKUPS {
            return Err((span.column(), PolicyFault::TooManyLookups(MAX_LOOKUPS)));
        }
        self.rules.push(rule);
        Ok(())
    }

    /// The rules in their order.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// What it says where no rule matches, and in which line.
    pub fn default_verdict(&self) -> Option<(usize, Verdict)> {
        self.default
    }

    /// The questions to data sources that it may need answered.
    pub fn lookups(&self) -> impl Iterator<Item = &Lookup> {
        self.lookups.iter()
    }

    /// The first rule that decides a question, and how it stands to it; or what must be asked to tell.
    pub(super) fn first(
        &self,
        asked: &Question<'_>,
        known: &Known,
    ) -> Progress<'_, Option<(&Rule, Fit)>> {
        for rule in &self.rules {
            match rule.fit(asked, known) {
                Progress::Decided(fit) if rule.decides(fit) => {
                    return Progress::Decided(Some((rule, fit)));
                }
                Progress::Decided(_) => {}
                Progress::Needs(lookup) => return Progress::Needs(lookup),
            }
        }
        Progress::Decided(None)
    }

    /// What is to be said of each rule up to the one that decides, if everything is known that this takes.
    pub(super) fn steps(&self, asked: &Question<'_>, known: &Known) -> Vec<Step> {
        let mut steps = Vec::new();
        for rule in &self.rules {
            let Progress::Decided(fit) = rule.fit(asked, known) else {
                break;
            };
            let is_unknown = fit == Fit::Unknown;
            steps.push(Step {
                line: rule.line(),
                text: rule.text().to_owned(),
                verdict: rule.verdict(),
                mismatch: rule.mismatch(fit, asked, known),
                unknown: if is_unknown {
                    rule.unknown(asked, known)
                } else {
                    Vec::new()
                },
            });
            if rule.decides(fit) {
                break;
            }
        }
        steps
    }
}
