//! Splits the words of `-W "environment=development mysql::master /^role::/"`.
//!
//! A word that begins with `/` ends at the closing slash (`/` or `/i` before white space or the end; a backslash escapes a
//! slash). Elsewhere, quotes protect white space where a name or a value may begin; quotes around a whole word only group it.

use std::borrow::Cow;

use super::error::{FaultContext as _, FilterFault, Result, expected_at};
use super::parse::{find_operator, find_regex_end, unquote_text};
use super::pattern::FilterPattern;
use super::term::FactTerm;

/// Splits a text into words and adds each to the facts or to the classes.
pub(super) fn parse_words(
    text: &str,
    facts: &mut Vec<FactTerm>,
    classes: &mut Vec<FilterPattern>,
) -> Result<()> {
    let mut rest = text.trim_start();
    if rest.is_empty() {
        return expected_at(text.len(), "at least one fact or class");
    }
    while !rest.is_empty() {
        let at = text.len() - rest.len();
        let end = if rest.starts_with('/') { regex_end(rest) } else { plain_end(rest) };
        let (word, after) = rest.split_at_checked(end.shifted_by(at)?).unwrap_or((rest, ""));
        let (content, offset) = match unquote_text(word) {
            Some(unquoted) => (Cow::Owned(unquoted), at + 1),
            None => (Cow::Borrowed(word), at),
        };
        if !content.starts_with('/') && find_operator(&content).is_some() {
            facts.push(FactTerm::parse_part(&content).shifted_by(offset)?);
        } else {
            classes.push(FilterPattern::parse_class_part(&content).shifted_by(offset)?);
        }
        rest = after.trim_start();
    }
    Ok(())
}

/// The length of the leading `/regex/`.
fn regex_end(text: &str) -> Result<usize> {
    let expected = "a closing / after the regular expression";
    let missing = || FilterFault::new(text.len(), expected);
    find_regex_end(text, char::is_whitespace).ok_or_else(missing)
}

/// The length of the leading word that is not a regex.
fn plain_end(text: &str) -> Result<usize> {
    let mut open_quote: Option<(usize, char)> = None;
    let mut can_open_quote = true;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        if open_quote.is_some() {
            open_quote = open_quote.filter(|&(_, quote)| c != quote || escaped);
        } else if c.is_whitespace() {
            return Ok(at);
        } else if can_open_quote && matches!(c, '"' | '\'') {
            open_quote = Some((at, c));
        }
        can_open_quote = matches!(c, '.' | '=' | '<' | '>' | '~');
        escaped = open_quote.is_some() && c == '\\' && !escaped;
    }
    match open_quote {
        Some((at, _)) => expected_at(at, "a matching closing quote"),
        None => Ok(text.len()),
    }
}

#[cfg(test)]
mod tests {
    use crate::NodeFilter;

    fn split(text: &str) -> (Vec<String>, Vec<String>) {
        let filter = NodeFilter::default().with_words(text).unwrap_or_else(|e| panic!("{e}"));
        (
            filter.facts().iter().map(ToString::to_string).collect(),
            filter.classes().iter().map(ToString::to_string).collect(),
        )
    }

    fn both(facts: &[&str], classes: &[&str]) -> (Vec<String>, Vec<String>) {
        let owned = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect();
        (owned(facts), owned(classes))
    }

    #[test]
    fn words_with_an_operator_are_facts_and_other_words_are_classes() {
        assert_eq!(
            split("environment=development  customer=acme mysql::master"),
            both(&["environment==development", "customer==acme"], &["mysql::master"])
        );
        assert_eq!(split("/^role::/ a=/x/"), both(&["a=~/x/"], &["/^role::/"]));
    }

    #[test]
    fn quotes_and_slashes_protect_spaces() {
        assert_eq!(
            split(r#"os.name="Red Hat" 'a = b c' facts."x y"=1 "apache""#),
            both(&["os.name==\"Red Hat\"", "a==\"b c\"", "facts.\"x y\"==1"], &["apache"])
        );
        assert_eq!(split(r"/a b/i /c\/ d/ /a=b/"), both(&[], &["/a b/i", r"/c\/ d/", "/a=b/"]));
        assert_eq!(split("who=O'Brien x"), both(&["who==\"O'Brien\""], &["x"]));
        assert_eq!(split(r#"f="a\" b" c"#), both(&[r#"f=="a\" b""#], &["c"]));
    }

    #[test]
    fn unterminated_words_are_refused() {
        for (text, column) in [
            ("", 1),
            (" \t", 3),
            ("a b=", 5),
            ("a = b", 3),
            ("a =b", 3),
            ("a b=\"c d", 5),
            ("a /b", 5),
            ("é \"\"", 4),
            ("a !b", 3),
            ("a 'b c'", 5),
            ("// a", 2),
        ] {
            let error = NodeFilter::default().with_words(text).unwrap_err();
            assert_eq!(error.column(), column, "{text:?}: {error}");
        }
    }
}
