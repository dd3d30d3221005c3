//! Splits an expression into tokens, without checking their order.

use crate::error::{FaultContext as _, FilterFault, Result, expected_at};
use crate::parse::{OPERATOR_SPELLINGS, find_regex_end, unquote_text};
use crate::term::FactOperator;

/// A token with its byte offset from the start of the expression.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SelectToken {
    pub(super) at: usize,
    pub(super) kind: SelectTokenKind,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum SelectTokenKind {
    Open,
    Close,
    OpenList,
    CloseList,
    Comma,
    And,
    Or,
    Not,
    In,
    Compare(FactOperator),
    Word(String),
    Text(String),
    Regex(String),
}

/// Tokens that are not words. Longer tokens precede their prefixes; comparison operators are tried before this list.
const SYMBOL_TOKENS: [(&str, SelectTokenKind); 8] = [
    ("(", SelectTokenKind::Open),
    (")", SelectTokenKind::Close),
    ("[", SelectTokenKind::OpenList),
    ("]", SelectTokenKind::CloseList),
    (",", SelectTokenKind::Comma),
    ("&&", SelectTokenKind::And),
    ("||", SelectTokenKind::Or),
    ("!", SelectTokenKind::Not),
];

/// Keywords, case-insensitive.
const KEYWORD_TOKENS: [(&str, SelectTokenKind); 5] = [
    ("and", SelectTokenKind::And),
    ("or", SelectTokenKind::Or),
    ("not", SelectTokenKind::Not),
    ("in", SelectTokenKind::In),
    ("matches", SelectTokenKind::Compare(FactOperator::Match)),
];

/// All tokens of a text.
pub(super) fn tokenize_select(text: &str) -> Result<Vec<SelectToken>> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let at = text.len() - rest.len();
        let (kind, after) = next_token(rest).shifted_by(at)?;
        tokens.push(SelectToken { at, kind });
        rest = after.trim_start();
    }
    Ok(tokens)
}

/// Whether a text is tokenized as one word that is not a keyword.
pub(super) fn is_plain_word(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('/') && text.chars().all(is_plain) && !is_keyword(text)
}

/// Whether a regular expression between slashes is tokenized unchanged in any context.
pub(super) fn is_whole_regex(slashed: &str) -> bool {
    regex_end(slashed).is_ok_and(|end| end == slashed.len())
}

/// The first token of a non-empty text, and the rest.
fn next_token(text: &str) -> Result<(SelectTokenKind, &str)> {
    let operator_token = OPERATOR_SPELLINGS
        .iter()
        .map(|(spelling, operator)| (*spelling, SelectTokenKind::Compare(*operator)))
        .chain(SYMBOL_TOKENS)
        .find_map(|(spelling, kind)| Some((kind, text.strip_prefix(spelling)?)));
    if let Some(found) = operator_token {
        return Ok(found);
    }
    let (to_kind, end): (fn(&str) -> Option<SelectTokenKind>, usize) = match text.chars().next() {
        Some('"' | '\'') => (|word| unquote_text(word).map(SelectTokenKind::Text), text_end(text)?),
        Some('/') => (|word| Some(SelectTokenKind::Regex(word.to_owned())), regex_end(text)?),
        _ => (|word| Some(keyword_or_word(word)), word_end(text)?),
    };
    text.split_at_checked(end)
        .and_then(|(word, after)| Some((to_kind(word)?, after)))
        .ok_or_else(|| FilterFault::new(0, EXPECTED_CONDITION))
}

const EXPECTED_CONDITION: &str = "a condition such as country=uk, apache or fact(\"os.family\") == \"Debian\" (other characters need quotes)";

fn keyword_or_word(word: &str) -> SelectTokenKind {
    KEYWORD_TOKENS
        .into_iter()
        .find(|(keyword, _)| keyword.eq_ignore_ascii_case(word))
        .map_or_else(|| SelectTokenKind::Word(word.to_owned()), |(_, kind)| kind)
}

fn is_keyword(word: &str) -> bool {
    !matches!(keyword_or_word(word), SelectTokenKind::Word(_))
}

/// Whether a character is allowed in an unquoted word.
fn is_plain(c: char) -> bool {
    !c.is_whitespace() && !c.is_control() && !"()[],\"'=<>!~&|".contains(c)
}

/// The length of the leading quoted text.
fn text_end(text: &str) -> Result<usize> {
    let quote = text.chars().next();
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if Some(c) == quote && !escaped {
            return Ok(at + 1);
        }
        escaped = c == '\\' && !escaped;
    }
    expected_at(0, "a matching closing quote")
}

/// The length of the leading `/regex/`: to a slash, or `/i`, that is followed by white space, a bracket, a comma or the end.
/// A backslash escapes a slash.
fn regex_end(text: &str) -> Result<usize> {
    let is_end = |c: char| c.is_whitespace() || "()[],&|".contains(c);
    find_regex_end(text, is_end).ok_or_else(|| {
        let expected = "a closing / after the regular expression (put a path in quotes)";
        FilterFault::new(text.len(), expected)
    })
}

/// The length of the leading word; quotes may group a segment of a fact path.
fn word_end(text: &str) -> Result<usize> {
    let mut open_quote: Option<(usize, char)> = None;
    let mut at_segment_start = false;
    for (at, c) in text.char_indices() {
        if open_quote.is_some() {
            open_quote = open_quote.filter(|&(_, quote)| c != quote);
        } else if at_segment_start && matches!(c, '"' | '\'') {
            open_quote = Some((at, c));
        } else if !is_plain(c) {
            return if at == 0 { expected_at(0, EXPECTED_CONDITION) } else { Ok(at) };
        }
        at_segment_start = c == '.';
    }
    match open_quote {
        Some((at, _)) => expected_at(at, "a matching closing quote"),
        None => Ok(text.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::{SelectTokenKind, is_plain_word, is_whole_regex, tokenize_select};

    fn spelled(text: &str) -> Vec<String> {
        let kinds = tokenize_select(text).unwrap().into_iter().map(|token| token.kind);
        kinds
            .map(|kind| match kind {
                SelectTokenKind::Word(word) => word,
                SelectTokenKind::Text(text) => format!("<{text}>"),
                SelectTokenKind::Regex(regex) => format!("{{{regex}}}"),
                SelectTokenKind::Compare(operator) => operator.to_string(),
                other => format!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn splits_words_operators_strings_and_regexes() {
        for (text, tokens) in [
            ("a AND !b||c", "a And Not b Or c"),
            ("!(a!=b&&c!~/x/)", "Not Open a != b And c !~ {/x/} Close"),
            ("a=<1 b=>2 c!=~d", "a <= 1 b >= 2 c !~ d"),
            ("fstat('/etc/hosts').md5=/^a b/i", "fstat Open </etc/hosts> Close .md5 == {/^a b/i}"),
            (r#"f in ["a\"b", 'c\d']"#, r#"f In OpenList <a"b> Comma <c\d> CloseList"#),
            ("/a/b (c)/ /\\/ / /(/i)", "{/a/b (c)/} {/\\/ /} {/(/i} Close"),
            ("l.\"a = b\".c=1 matches x", "l.\"a = b\".c == 1 =~ x"),
            ("", ""),
        ] {
            assert_eq!(spelled(text).join(" "), tokens, "{text}");
        }
    }

    #[test]
    fn unquoted_text_is_one_token() {
        assert!(is_plain_word("mysql::master") && is_plain_word("é.x-1"));
        for text in ["", "/a", "a b", "In", "a=b", "\u{7}", "a,b", "a.\"b\""] {
            assert!(!is_plain_word(text), "{text:?}");
        }
        assert!(is_whole_regex("/a/b/i") && !is_whole_regex("/a/ b/") && !is_whole_regex("/a/)/"));
    }
}
