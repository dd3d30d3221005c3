//! The filters, tests and functions that a template names in any of its branches. Rendering finds an unknown one only in a branch that is taken: on another node, or later.

use std::collections::BTreeSet;
use std::iter::Peekable;
use std::str::Chars;

use minijinja::{Environment, ErrorKind, Value};

/// Names that are functions only inside certain blocks.
const BLOCK_FUNCTIONS: [&str; 3] = ["caller", "loop", "super"];

/// A token of an expression or statement, as far as names are concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
enum TemplateToken {
    /// A name, without what is after a point.
    Name(String),
    /// Any other character that is no blank and in no text.
    Sign(char),
}

/// The first unknown name of a template, in words; `None` if all are known.
pub(crate) fn unknown_name(environment: &Environment<'_>, content: &str) -> Option<String> {
    let blocks = read_blocks(content);
    let mut functions: BTreeSet<&str> = environment.globals().map(|(name, _)| name).collect();
    functions.extend(BLOCK_FUNCTIONS);
    functions.extend(blocks.iter().flat_map(|block| defined_names(block)));
    blocks.iter().find_map(|block| unknown_in_block(environment, &functions, block))
}

fn unknown_in_block(
    environment: &Environment<'_>,
    functions: &BTreeSet<&str>,
    block: &[TemplateToken],
) -> Option<String> {
    use TemplateToken::{Name, Sign};
    let is_unknown_filter = |name: &str| {
        let applied = environment.empty_state().apply_filter(name, &[Value::UNDEFINED]);
        applied.is_err_and(|error| error.kind() == ErrorKind::UnknownFilter)
    };
    let is_unknown_test = |name: &str| {
        let performed = environment.empty_state().perform_test(name, &[Value::UNDEFINED]);
        performed.is_err_and(|error| error.kind() == ErrorKind::UnknownTest)
    };
    let mut before: Option<&TemplateToken> = None;
    for (index, token) in block.iter().enumerate() {
        let previous = before.replace(token);
        let Name(name) = token else { continue };
        let after = block.get(index + 1);
        let is_test = match previous {
            Some(Name(word)) if word == "is" => name != "not",
            Some(Name(word)) if word == "not" => {
                let earlier = index.checked_sub(2).and_then(|index| block.get(index));
                earlier == Some(&Name("is".to_owned()))
            }
            _ => false,
        };
        let is_filter = previous == Some(&Sign('|'))
            || (index == 1 && previous == Some(&Name("filter".to_owned())));
        if is_filter {
            if is_unknown_filter(name) {
                return Some(format!("unknown filter `{name}`"));
            }
        } else if is_test {
            if is_unknown_test(name) {
                return Some(format!("unknown test `{name}`"));
            }
        } else if after == Some(&Sign('('))
            && previous != Some(&Sign('.'))
            && !functions.contains(name.as_str())
            && !is_keyword(name)
        {
            return Some(format!("unknown function `{name}`"));
        }
    }
    None
}

/// Words that may stand before a parenthesis.
fn is_keyword(name: &str) -> bool {
    ["and", "or", "not", "in", "is", "if", "elif", "else", "set", "do", "call", "for", "with"]
        .contains(&name)
}

/// The names that a statement defines: those of `macro`, `set`, `for` and `with`, whose values may be called.
fn defined_names(block: &[TemplateToken]) -> impl Iterator<Item = &str> {
    let defines = block.first().is_some_and(|token| {
        let TemplateToken::Name(word) = token else { return false };
        ["macro", "set", "for", "with", "import", "from", "call"].contains(&word.as_str())
    });
    block.iter().skip(1).filter(move |_| defines).filter_map(move |token| match token {
        TemplateToken::Name(name) => Some(name.as_str()),
        TemplateToken::Sign(_) => None,
    })
}

/// The expressions and statements of a template, without texts, comments and raw blocks.
fn read_blocks(content: &str) -> Vec<Vec<TemplateToken>> {
    let mut blocks = Vec::new();
    let mut rest = content;
    while let Some((_, after)) = rest.split_once('{') {
        rest = after;
        let end = match rest.chars().next() {
            Some('#') => {
                rest = rest.split_once("#}").map_or("", |(_, after)| after);
                continue;
            }
            Some('{') => '}',
            Some('%') => '%',
            _ => continue,
        };
        let (block, after) = read_block(rest.get(1..).unwrap_or_default(), end);
        rest = after;
        if block == [TemplateToken::Name("raw".to_owned())] {
            rest = rest.split_once("endraw").map_or("", |(_, after)| after);
        } else {
            blocks.push(block);
        }
    }
    blocks
}

/// The tokens up to the end of a block, and the text after it.
fn read_block(text: &str, end: char) -> (Vec<TemplateToken>, &str) {
    let mut tokens = Vec::new();
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            _ if c == end && rest.next_if_eq(&'}').is_some() => break,
            '"' | '\'' => skip_text(&mut rest, c),
            '-' | '+' => {}
            c if c.is_alphabetic() || c == '_' => {
                let mut name = String::from(c);
                while let Some(c) = rest.next_if(|c| c.is_alphanumeric() || *c == '_') {
                    name.push(c);
                }
                tokens.push(TemplateToken::Name(name));
            }
            c if c.is_whitespace() => {}
            c => tokens.push(TemplateToken::Sign(c)),
        }
    }
    let left: usize = rest.map(char::len_utf8).sum();
    (tokens, text.get(text.len() - left..).unwrap_or_default())
}

fn skip_text(rest: &mut Peekable<Chars<'_>>, quote: char) {
    while let Some(c) = rest.next() {
        if c == '\\' {
            rest.next();
        } else if c == quote {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_engine::types::motd_fragment::FragmentTarget;
    use proptest::prelude::*;

    use super::unknown_name;
    use crate::motd::template::template_environment;

    fn unknown(content: &str) -> Option<String> {
        unknown_name(&template_environment(FragmentTarget::Motd), content)
    }

    #[test]
    fn unknown_names_are_found_in_all_branches() {
        for (content, name) in [
            ("{% if false %}{{ facts.a | colour('red') }}{% endif %}", "filter `colour`"),
            ("{% if facts.x is definde %}a{% endif %}", "test `definde`"),
            ("{% if facts.x is not definde %}a{% endif %}", "test `definde`"),
            ("{% if false %}{{ include_file('/etc/motd') }}{% endif %}", "function `include_file`"),
            ("{%- filter uper -%}a{% endfilter %}", "filter `uper`"),
            ("{{ 'a' | upper | safe }}", "filter `safe`"),
        ] {
            assert_eq!(unknown(content), Some(format!("unknown {name}")), "{content}");
        }
    }

    #[test]
    fn names_that_a_template_may_use_are_known() {
        for content in [
            "{{ facts.a | upper | color('red') | bold }}",
            "{% for i in range(3) %}{{ loop.cycle('a', 'b') }}{% endfor %}",
            "{% macro m(v) %}{{ v }}{% endmacro %}{{ m(facts.a) }}",
            "{% set n = namespace(a='x') %}{{ n.a }}",
            "{% if (facts.a) and not (facts.b is defined) %}x{% endif %}",
            "{% if 3 is divisibleby(3) %}x{% endif %}",
            "{{ '| nosuch' }} {{ \"a \\\" | nosuch\" }} a | nosuch {# | nosuch #}",
            "{% raw %}{{ a | nosuch }}{% endraw %}",
            "{{ facts.get('a') }}{{ facts['a'].items() }}",
        ] {
            assert_eq!(unknown(content), None, "{content}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read(content in "([{}%#| a-z'\"\\\\(]|is|é){0,40}") {
            let _ = unknown(&content);
        }
    }
}
