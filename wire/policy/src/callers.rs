//! Caller sets: the names, groups and expressions of a rule's caller field.

use std::collections::BTreeSet;
use std::fmt;

use muster_filter::MAX_PATTERN_BYTES;
use regex::Regex;

use super::fault::{FieldResult, PolicyFault};
use super::groups::CallerGroups;
use super::principal::{CALLER_PREFIXES, PolicyPrincipal, PrincipalRole, split_role};
use super::span::LineSpan;

/// Memory limit of one compiled expression, in bytes.
const MAX_COMPILED_REGEX_BYTES: usize = 64 * 1024;

/// The callers of a rule. `Display` prints the field as written.
#[derive(Debug, Clone, Default)]
pub struct CallerSet {
    anyone: bool,
    names: BTreeSet<PolicyPrincipal>,
    expressions: Vec<CallerRegex>,
    words: Vec<CallerWord>,
}

/// A word of the field, as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallerWord {
    /// The word.
    pub text: String,
    /// Its column in the line, in characters from 1.
    pub column: usize,
    /// Whether it is a group name.
    pub group: bool,
}

/// An expression that matches whole names of one role.
#[derive(Debug, Clone)]
struct CallerRegex {
    role: PrincipalRole,
    source: String,
    regex: Regex,
}

impl CallerSet {
    /// Parses the words of a field: `*`, or names, groups and expressions.
    pub(super) fn parse_words<'a>(
        words: impl Iterator<Item = LineSpan<'a>>,
        groups: &CallerGroups,
    ) -> FieldResult<Self> {
        let words: Vec<LineSpan<'_>> = words.collect();
        let mut callers =
            Self { anyone: matches!(*words, [only] if only.text() == "*"), ..Self::default() };
        for word in words {
            callers.add_word(word, groups).map_err(|fault| (word.column(), fault))?;
        }
        Ok(callers)
    }

    fn add_word(&mut self, word: LineSpan<'_>, groups: &CallerGroups) -> Result<(), PolicyFault> {
        let text = word.text();
        let mut group = false;
        if self.anyone {
            // `*` is valid only alone: beside other words it is a mistake, and not a valid name.
        } else if let Some((role, expression)) =
            split_role(text).filter(|(_, rest)| rest.starts_with('/'))
        {
            self.expressions.push(CallerRegex::parse_regex(text, role, expression)?);
        } else if let Some(members) = groups.group_members(text) {
            group = true;
            self.names.extend(members.iter().cloned());
        } else {
            self.names.insert(PolicyPrincipal::parse(text)?);
        }
        self.words.push(CallerWord { text: text.to_owned(), column: word.column(), group });
        Ok(())
    }

    /// Whether the set includes this principal. Role and whole name are compared.
    pub fn includes_caller(&self, caller: &PolicyPrincipal) -> bool {
        self.anyone
            || self.names.contains(caller)
            || self.expressions.iter().any(|expression| expression.matches_caller(caller))
    }

    /// Whether this set certainly includes all of the others. `false` may be a false negative.
    pub(super) fn covers_callers(&self, others: &Self) -> bool {
        let has_expression =
            |other: &CallerRegex| self.expressions.iter().any(|own| own.source == other.source);
        self.anyone
            || (!others.anyone
                && others.names.iter().all(|name| self.includes_caller(name))
                && others.expressions.iter().all(has_expression))
    }

    /// The words as written.
    pub fn words(&self) -> &[CallerWord] {
        &self.words
    }

    /// All names, including group members.
    pub fn names(&self) -> &BTreeSet<PolicyPrincipal> {
        &self.names
    }
}

impl fmt::Display for CallerSet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = self.words.iter().map(|word| word.text.as_str()).collect();
        out.write_str(&words.join(" "))
    }
}

impl CallerRegex {
    fn matches_caller(&self, caller: &PolicyPrincipal) -> bool {
        self.role == caller.role() && self.regex.is_match(caller.name().as_str())
    }

    /// Parses `/expression/` or `/expression/i`. The expression must be valid before it is anchored: otherwise one such as `a)|(b`
    /// would escape the anchors.
    fn parse_regex(word: &str, role: PrincipalRole, text: &str) -> Result<Self, PolicyFault> {
        let invalid = |reason: String| PolicyFault::CallerExpression {
            word: word.chars().take(200).collect(),
            reason,
        };
        let body = text.strip_prefix('/').unwrap_or_default();
        let sensitive = body.strip_suffix('/').map(|source| (source, ""));
        let (source, flag) = sensitive
            .or_else(|| body.strip_suffix("/i").map(|source| (source, "(?i)")))
            .ok_or_else(|| invalid("it must end with / or /i".to_owned()))?;
        if requires_prefix(source) {
            let word = word.chars().take(200).collect();
            let suggestion = expression_without_prefix(role, source, flag);
            return Err(PolicyFault::PrefixedExpression { word, suggestion });
        }
        if source.is_empty() || source.len() > MAX_PATTERN_BYTES {
            return Err(invalid(format!("it must be 1 to {MAX_PATTERN_BYTES} bytes")));
        }
        let compile = |text: &str| {
            regex::RegexBuilder::new(text)
                .size_limit(MAX_COMPILED_REGEX_BYTES)
                .dfa_size_limit(MAX_COMPILED_REGEX_BYTES)
                .build()
                .map_err(|error| invalid(last_line(&error)))
        };
        compile(source)?;
        Ok(Self {
            role,
            source: word.to_owned(),
            regex: compile(&format!(r"{flag}\A(?:{source})\z"))?,
        })
    }
}

/// Whether the expression has a `=`, which occurs in no name, outside of a negated class such as `[^=]`.
fn requires_prefix(source: &str) -> bool {
    let (mut in_negated_class, mut previous) = (false, ['\0'; 2]);
    for c in source.chars() {
        match c {
            '^' if previous == ['\\', '['] => {}
            '^' if previous[1] == '[' => in_negated_class = true,
            ']' if previous[1] != '\\' => in_negated_class = false,
            '=' if !in_negated_class => return true,
            _ => {}
        }
        previous = [previous[1], c];
    }
    false
}

/// The expression for names that is equal to one for prefixed names, where a part of a name is enough.
fn expression_without_prefix(role: PrincipalRole, source: &str, flag: &str) -> Option<String> {
    let (prefix, rest) = source.strip_prefix('^').unwrap_or(source).split_once('=')?;
    let is_service = prefix == "service" || role == PrincipalRole::Service;
    if !is_service && !CALLER_PREFIXES.contains(&prefix) {
        return None;
    }
    let rest = match rest.strip_suffix('$') {
        Some(whole) => whole.to_owned(),
        None if rest.ends_with(".*") => rest.to_owned(),
        None => format!("{rest}.*"),
    };
    let role = if is_service { "service=" } else { "" };
    let flag = if flag.is_empty() { "" } else { "i" };
    (!rest.contains('=')).then(|| format!("{role}/{rest}/{flag}"))
}

/// Regex errors span several lines; the last line has the message.
fn last_line(error: &regex::Error) -> String {
    let text = error.to_string();
    text.lines().last().unwrap_or_default().trim().to_owned()
}
