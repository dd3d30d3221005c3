//! One policy file: its rules in their order, and its default.

use super::explain::Step;
use super::fault::{Flaw, PolicyFault};
use super::groups::Groups;
use super::rule::Rule;
use super::span::{Span, lines};
use super::{Question, Verdict};

/// Most rules in one file: each is looked at for each request.
const MAX_RULES: usize = 4096;
/// So many things wrong with a file are told.
const MAX_FLAWS: usize = 32;

/// A file that was understood as a whole.
#[derive(Debug, Clone)]
pub struct PolicyFile {
    rules: Vec<Rule>,
    default: Option<(usize, Verdict)>,
}

impl PolicyFile {
    /// Reads the whole file, or nothing of it: a line that is skipped may have been a `deny`. Then everything that is wrong with
    /// it, in the order of its lines.
    pub fn parse(text: &str, groups: &Groups) -> Result<Self, Vec<Flaw>> {
        let mut file = Self {
            rules: Vec::new(),
            default: None,
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
        self.rules.push(Rule::read(line, span, groups)?);
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

    /// Holds the rules against a question, one after the other, until one is about it. The rule that decided, and what was said
    /// of those before it.
    pub(super) fn steps(&self, asked: &Question<'_>) -> (Option<&Rule>, Vec<Step>) {
        let mut steps = Vec::new();
        for rule in &self.rules {
            let mismatch = rule.test(asked).err();
            let decided = mismatch.is_none();
            steps.push(Step {
                line: rule.line(),
                text: rule.text().to_owned(),
                verdict: rule.verdict(),
                mismatch,
            });
            if decided {
                return (Some(rule), steps);
            }
        }
        (None, steps)
    }

    /// The first rule that is about a question.
    pub(super) fn first(&self, asked: &Question<'_>) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.test(asked).is_ok())
    }
}
