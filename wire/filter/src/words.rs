//! Splits the words of `-W "environment=development mysql::master /^role::/"`.
//!
//! A word that begins with `/` ends at the closing slash (`/` or `/i` before white space or the end; a backslash escapes a
//! slash). Elsewhere, quotes protect white space where a name or a value may begin; quotes around a whole word only group it.

use std::borrow::Cow;

use super::error::FilterFault;
use super::parse::{find_operator, unquote_text};
use super::pattern::FilterPattern;
use super::term::FactTerm;

/// A parsed word.
pub(super) enum FilterWord {
    Fact(FactTerm),
    Class(FilterPattern),
}

/// Parses all words of a text; at least one.
pub(super) fn parse_words(text: &str) -> Result<Vec<FilterWord>, FilterFault> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let at = text.len() - rest.len();
        let end = if rest.starts_with('/') { regex_end(rest) } else { plain_end(rest) };
        let end = end.map_err(|fault| fault.shifted_by(at))?;
        let (word, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
        words.push(read_word(word).map_err(|fault| fault.shifted_by(at))?);
        rest = after.trim_start();
    }
    if words.is_empty() {
        return Err(FilterFault::new(text.len(), "at least one fact or class"));
    }
    Ok(words)
}

/// A fact term if the word has an operator, else a class. An incomplete fact is an error and never a class.
fn read_word(word: &str) -> Result<FilterWord, FilterFault> {
    let (content, offset) = match unquote_text(word) {
        Some(unquoted) => (Cow::Owned(unquoted), 1),
        None => (Cow::Borrowed(word), 0),
    };
    let parsed = if !content.starts_with('/') && find_operator(&content).is_some() {
        FactTerm::parse_part(&content).map(FilterWord::Fact)
    } else {
        FilterPattern::parse_part(&content).map(FilterWord::Class)
    };
    parsed.map_err(|fault| fault.shifted_by(offset))
}

/// The length of the leading `/regex/`.
fn regex_end(text: &str) -> Result<usize, FilterFault> {
    let is_end = |rest: &str| rest.chars().next().is_none_or(char::is_whitespace);
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if c == '/' && !escaped {
            let (_, after) = text.split_at_checked(at + 1).unwrap_or((text, ""));
            if is_end(after) {
                return Ok(at + 1);
            }
            if after.strip_prefix('i').is_some_and(is_end) {
                return Ok(at + 2);
            }
        }
        escaped = c == '\\' && !escaped;
    }
    Err(FilterFault::new(text.len(), "a closing / after the regular expression"))
}

/// The length of the leading word that is not a regex.
fn plain_end(text: &str) -> Result<usize, FilterFault> {
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
        Some((at, _)) => Err(FilterFault::new(at, "a matching closing quote")),
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
    fn words_with_an_operator_are_facts_and_others_classes() {
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
    fn half_a_word_is_an_error() {
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
