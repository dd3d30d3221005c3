//! Parses fact terms: `customer=acme`, `os.release.major >= 12`, `hostname=/^web/i`.
//!
//! `=` and `==` are one operator. Like `!=`, they take a regular expression if the value is between slashes. Quotes make any
//! value a literal text. `=<`, `=>` and `!=~` are accepted for `<=`, `>=` and `!~`.

use super::error::{FaultContext as _, FilterError, FilterFault, Result, expected_at};
use super::pattern::{FilterRegex, split_slashed_regex};
use super::term::{FactOperand, FactOperator, FactTerm, LiteralOperand, read_path};

/// Operator spellings. Longer spellings precede their prefixes.
pub(super) const OPERATOR_SPELLINGS: [(&str, FactOperator); 12] = [
    ("!=~", FactOperator::NotMatch),
    ("!~", FactOperator::NotMatch),
    ("!=", FactOperator::NotEqual),
    ("==", FactOperator::Equal),
    ("=~", FactOperator::Match),
    ("=<", FactOperator::AtMost),
    ("=>", FactOperator::AtLeast),
    ("<=", FactOperator::AtMost),
    (">=", FactOperator::AtLeast),
    ("=", FactOperator::Equal),
    ("<", FactOperator::Less),
    (">", FactOperator::Greater),
];

impl FactTerm {
    /// Parses a term. White space around the parts is ignored.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        Self::parse_part(text).within_text(text)
    }

    pub(super) fn parse_part(text: &str) -> Result<Self> {
        let start = text.len() - text.trim_start().len();
        let Some((name, rest)) = find_operator(text).and_then(|at| text.split_at_checked(at))
        else {
            // If the text is not a valid fact name either, the name's error is more helpful.
            read_path(text.trim()).shifted_by(start)?;
            return expected_at(
                text.len(),
                "an operator (= != =~ !~ < <= > >=) after the fact's name",
            );
        };
        let path = read_path(name.trim()).shifted_by(start)?;
        let Some((operator, value)) = OPERATOR_SPELLINGS
            .iter()
            .find_map(|(spelling, operator)| Some((*operator, rest.strip_prefix(spelling)?)))
        else {
            return expected_at(name.len(), "one of the operators = != =~ !~ < <= > >=");
        };
        let value_at = text.len() - value.trim_start().len();
        let (operator, operand) = read_value(operator, value.trim()).shifted_by(value_at)?;
        Ok(Self { path, operator, operand })
    }
}

/// The offset of the operator: its first character outside a quoted part of the fact's name.
pub(super) fn find_operator(text: &str) -> Option<usize> {
    let mut open_quote: Option<char> = None;
    let mut at_segment_start = true;
    for (at, c) in text.char_indices() {
        if open_quote.is_some() {
            open_quote = open_quote.filter(|&quote| c != quote);
        } else if at_segment_start && matches!(c, '"' | '\'') {
            open_quote = Some(c);
        } else if matches!(c, '=' | '<' | '>' | '!' | '~') {
            return Some(at);
        }
        at_segment_start = c == '.' || (at_segment_start && c.is_whitespace());
    }
    None
}

/// Parses the value after the operator. A value between slashes can change the operator to a match.
/// The length of the leading `/regex/`: to a slash, or `/i`, that is followed by an end character or the end of the text.
/// A backslash escapes a slash.
pub(super) fn find_regex_end(text: &str, is_end: impl Fn(char) -> bool) -> Option<usize> {
    let ends = |rest: &str| rest.chars().next().is_none_or(&is_end);
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if c == '/' && !escaped {
            let after = text.get(at + 1..).unwrap_or_default();
            if ends(after) {
                return Some(at + 1);
            }
            if after.strip_prefix('i').is_some_and(ends) {
                return Some(at + 2);
            }
        }
        escaped = c == '\\' && !escaped;
    }
    None
}

fn read_value(operator: FactOperator, value: &str) -> Result<(FactOperator, FactOperand)> {
    if value.starts_with(['"', '\'']) {
        let text = unquote_text(value).ok_or_else(|| {
            FilterFault::new(value.len(), "the closing quote as the last character of the value")
        })?;
        let operand = if operator.takes_regex() {
            FilterRegex::compile_regex(&text, false)
                .and_then(FilterRegex::ignoring_case)
                .map(FactOperand::Regex)
        } else {
            LiteralOperand::parse_part(&text).map(FactOperand::Literal)
        };
        return Ok((operator, operand.shifted_by(1)?));
    }
    let has_slashes = split_slashed_regex(value).is_some();
    let operator = if has_slashes { operator.with_regex() } else { operator };
    if operator.takes_regex() {
        let expression = if value.starts_with('/') {
            FilterRegex::parse_slashed(value)
        } else {
            FilterRegex::compile_regex(value, false)
        };
        let expression = expression.and_then(FilterRegex::ignoring_case)?;
        return Ok((operator, FactOperand::Regex(expression)));
    }
    if value.starts_with(['=', '<', '>', '~']) {
        return expected_at(0, "a value (in quotes, if it begins with = < > or ~)");
    }
    Ok((operator, FactOperand::Literal(LiteralOperand::parse_unquoted(value)?)))
}

/// The content of a text that is quoted from its first to its last character. A backslash escapes a quote or another
/// backslash; before any other character it is literal.
pub(super) fn unquote_text(text: &str) -> Option<String> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let mut unquoted = String::with_capacity(text.len());
    let mut chars = text.chars().skip(1).peekable();
    while let Some(c) = chars.next() {
        if c == quote {
            return chars.peek().is_none().then_some(unquoted);
        }
        let escaped =
            if c == '\\' { chars.next_if(|&next| next == quote || next == '\\') } else { None };
        unquoted.push(escaped.unwrap_or(c));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::FactTerm;

    fn canonical(text: &str) -> String {
        FactTerm::parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).to_string()
    }

    #[test]
    fn every_form_has_one_canonical_text() {
        for (text, printed) in [
            ("f=v", "f==v"),
            ("f==v", "f==v"),
            (" f = v w ", "f==\"v w\""),
            ("f=~v", "f=~/v/"),
            ("f=/re/", "f=~/re/"),
            ("f==/re/i", "f=~/re/i"),
            ("f=~/re/", "f=~/re/"),
            ("f!=v", "f!=v"),
            ("f!=/a/b/", "f!~/a/b/"),
            ("f!~/re/", "f!~/re/"),
            ("f !=~ re", "f!~/re/"),
            ("f<=1", "f<=1"),
            ("f=<1", "f<=1"),
            ("f>=1", "f>=1"),
            ("f=>1", "f>=1"),
            ("f < 1", "f<1"),
            ("f>1", "f>1"),
            ("mount=/", "mount==\"/\""),
            ("home=/srv/www", "home==\"/srv/www\""),
            ("home=\"/srv/\"", "home==\"/srv/\""),
            ("f='it''s'", ""),
            ("name=O'Brien", "name==\"O'Brien\""),
            ("key=aGk=", "key==\"aGk=\""),
            ("f=a=~b", "f==\"a=~b\""),
            (r#"f="say \"\\\"""#, r#"f=="say \"\\\"""#),
            (r"path=C:\new", r#"path=="C:\\new""#),
            (r#"facts."a.b=c".d=1"#, r#"facts."a.b=c".d==1"#),
            ("f=~'/x/'", "f=~//x//"),
            ("f<=/x/", "f<=\"/x/\""),
            ("f='nil'", "f==\"nil\""),
        ] {
            if printed.is_empty() {
                assert!(FactTerm::parse(text).is_err(), "{text}");
                continue;
            }
            assert_eq!(canonical(text), printed, "{text}");
            assert_eq!(canonical(printed), printed);
        }
    }

    #[test]
    fn invalid_terms_are_refused_with_their_column() {
        for (text, column, expected) in [
            ("", 1, "name of a fact"),
            ("   ", 4, "name of a fact"),
            ("customer", 9, "operator"),
            ("customer=", 10, "not empty"),
            ("customer!=  ", 13, "not empty"),
            ("customer=\"\"", 11, "not empty"),
            ("customer=~", 11, "not empty"),
            ("=acme", 1, "name of a fact"),
            ("a b=c", 2, "dot or the end"),
            ("é..x=c", 3, "name of a fact"),
            ("a!b", 2, "operators"),
            ("a~b", 2, "operators"),
            ("a<>b", 3, "in quotes"),
            ("a===b", 4, "in quotes"),
            ("a=\"b", 5, "closing quote"),
            ("a='b'c", 7, "closing quote"),
            ("a=//", 4, "not empty"),
            ("a=~/b", 6, "closing /"),
            ("a =~ (", 6, "valid regular"),
            ("a=~/(/", 5, "valid regular"),
            ("a=b\u{1b}c", 4, "control"),
            ("a=nil", 3, "have the fact"),
            ("a != NULL", 6, "have the fact"),
            ("disks.#.size>1", 7, "without wildcards"),
            ("foo(bar=baz)>", 4, "without wildcards"),
        ] {
            let error = FactTerm::parse(text).unwrap_err();
            assert_eq!(error.column(), column, "{text:?}: {error}");
            assert!(error.expected().contains(expected), "{text:?}: {error}");
            assert_eq!(error.text(), text);
        }
        let broken = FactTerm::parse("a=~(").unwrap_err();
        assert!(std::error::Error::source(&broken).is_some());
    }
}
