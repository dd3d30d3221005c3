//! `$regex` and `$options`: a text that a regular expression matches.

use super::prelude::*;
use crate::error::FaultContext as _;
use crate::pattern::FilterRegex;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::document) struct Pattern(FilterRegex);

impl Pattern {
    /// Reads the operands of `$regex` and `$options`, which are one test.
    pub(super) fn read_with_options(
        regex: RelaxedValue,
        options: Option<RelaxedValue>,
        usage: &mut QueryUsage,
    ) -> Result<Self> {
        let (options, options_at) = match options {
            None => (None, 0),
            Some(RelaxedValue { at, kind: RelaxedKind::Text(flags) }) => (Some(flags), at),
            Some(other) => return expected_at(other.at, "a text with the flags i, m, s and x"),
        };
        let (source, flags) = match regex.kind {
            RelaxedKind::Text(source) => (source, String::new()),
            RelaxedKind::Regex { source, flags } => (source, flags),
            _ => return expected_at(regex.at, "a regular expression in quotes or slashes"),
        };
        if options.is_some() && !flags.is_empty() {
            let expected = "flags after the regular expression, or $options, not both";
            return expected_at(options_at, expected);
        }
        Self::compile(regex.at + 1, &source, &options.unwrap_or(flags), usage)
    }

    /// Compiles a regular expression. The flags m, s and x become a part of its source: `/(?m)^a/i`.
    fn compile(at: usize, source: &str, flags: &str, usage: &mut QueryUsage) -> Result<Self> {
        usage.add(at, QueryUsage { conditions: 1, regexes: 1 })?;
        if flags.contains(|c| !"imsx".contains(c)) {
            let expected =
                format!("the flags i, m, s and x of a regular expression, not {flags:?}");
            return expected_at(at, expected);
        }
        if source.is_empty() {
            return expected_at(at, "a regular expression that is not empty");
        }
        let inline: String = "msx".chars().filter(|flag| flags.contains(*flag)).collect();
        let prefix = if inline.is_empty() { String::new() } else { format!("(?{inline})") };
        // Only the literal form needs escapes of slashes. A backslash that is escaped itself escapes nothing.
        let parts = source.split(r"\\").map(|part| part.replace(r"\/", "/"));
        let source = prefix + &parts.collect::<Vec<_>>().join(r"\\");
        FilterRegex::compile_regex(&source, flags.contains('i')).shifted_by(at).map(Self)
    }

    /// The expression between slashes, with escapes for the slashes in it.
    pub(super) fn text(&self) -> String {
        let flag = if self.0.ignores_case() { "i" } else { "" };
        format!("/{}/{flag}", self.0.source().replace('/', "\\/"))
    }
}

impl FieldOperator for Pattern {
    const NAMES: &'static [&'static str] = &["$regex", "$options"];
    const REFERENCE: &'static str =
        "| `path: /regex/`, `$regex`, `$options` | is a text that matches | false |\n";

    fn read(_: &str, value: RelaxedValue, usage: &mut QueryUsage) -> Result<Self> {
        Self::read_with_options(value, None, usage)
    }

    fn matches(&self, subject: TestSubject<'_>) -> bool {
        subject.any_part(&mut |value: Option<NodeValue<'_>>| {
            value.and_then(NodeValue::as_text).is_some_and(|text| self.0.is_match(text))
        })
    }

    fn print(&self) -> String {
        format!("\"$regex\":{}", self.text())
    }

    fn explain(&self) -> String {
        format!("matches {}", self.text())
    }
}
