//! Reads a fact term as people write it: `customer=acme`, `os.release.major >= 12`, `hostname=/^web/i`.
//!
//! `=` and `==` are one operator, and like `!=` they take an expression when the value stands between
//! slashes. Quotes make any value a literal text. `=<`, `=>` and `!=~` are accepted for `<=`, `>=` and `!~`.

use std::str::FromStr;

use super::error::{Fault, FilterError};
use super::pattern::{Expression, Pattern, slashed};
use super::term::{FactTerm, Literal, Operand, Operator, read_path};

/// Spellings of the operators; one that begins another stands after it.
pub(super) const SPELLINGS: [(&str, Operator); 12] = [
    ("!=~", Operator::NotMatch),
    ("!~", Operator::NotMatch),
    ("!=", Operator::NotEqual),
    ("==", Operator::Equal),
    ("=~", Operator::Match),
    ("=<", Operator::AtMost),
    ("=>", Operator::AtLeast),
    ("<=", Operator::AtMost),
    (">=", Operator::AtLeast),
    ("=", Operator::Equal),
    ("<", Operator::Less),
    (">", Operator::Greater),
];

impl FactTerm {
    /// Reads a term. White space around the parts is ignored.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        Self::read(text).map_err(|fault| fault.within(text))
    }

    pub(super) fn read(text: &str) -> Result<Self, Fault> {
        let start = text.len() - text.trim_start().len();
        let Some((name, rest)) = find_operator(text).and_then(|at| text.split_at_checked(at))
        else {
            // Text that is not even a name is better told what is wrong with the name.
            read_path(text.trim()).map_err(|fault| fault.further(start))?;
            let expected = "an operator (= != =~ !~ < <= > >=) after the fact's name";
            return Err(Fault::new(text.len(), expected));
        };
        let path = read_path(name.trim()).map_err(|fault| fault.further(start))?;
        let Some((operator, value)) = SPELLINGS
            .iter()
            .find_map(|(spelling, operator)| Some((*operator, rest.strip_prefix(spelling)?)))
        else {
            return Err(Fault::new(
                name.len(),
                "one of the operators = != =~ !~ < <= > >=",
            ));
        };
        let value_at = text.len() - value.trim_start().len();
        let (operator, operand) =
            read_value(operator, value.trim()).map_err(|fault| fault.further(value_at))?;
        Ok(Self {
            path,
            operator,
            operand,
        })
    }
}

impl FromStr for FactTerm {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        Self::parse(text)
    }
}

impl FromStr for Pattern {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        Self::parse(text)
    }
}

/// Where the operator begins: the first of its characters outside a quoted part of the fact's name.
pub(super) fn find_operator(text: &str) -> Option<usize> {
    let mut open: Option<char> = None;
    let mut segment_begins = true;
    for (at, c) in text.char_indices() {
        if open.is_some() {
            open = open.filter(|&quote| c != quote);
        } else if segment_begins && matches!(c, '"' | '\'') {
            open = Some(c);
        } else if matches!(c, '=' | '<' | '>' | '!' | '~') {
            return Some(at);
        }
        segment_begins = c == '.' || (segment_begins && c.is_whitespace());
    }
    None
}

/// Reads what stands after the operator, which a value between slashes may turn into another.
fn read_value(operator: Operator, value: &str) -> Result<(Operator, Operand), Fault> {
    if value.starts_with(['"', '\'']) {
        let text = unquote(value).ok_or_else(|| {
            Fault::new(
                value.len(),
                "the closing quote as the last character of the value",
            )
        })?;
        let operand = if operator.takes_regex() {
            Expression::compile(&text, false).map(Operand::Regex)
        } else {
            Literal::read(&text).map(Operand::Literal)
        };
        return Ok((operator, operand.map_err(|fault| fault.further(1))?));
    }
    let operator = match (operator, slashed(value)) {
        (Operator::Equal, Some(_)) => Operator::Match,
        (Operator::NotEqual, Some(_)) => Operator::NotMatch,
        (other, _) => other,
    };
    if operator.takes_regex() {
        let expression = if value.starts_with('/') {
            Expression::read_slashed(value)
        } else {
            Expression::compile(value, false)
        };
        return Ok((operator, Operand::Regex(expression?)));
    }
    if value.starts_with(['=', '<', '>', '~']) {
        return Err(Fault::new(
            0,
            "a value (in quotes, if it begins with = < > or ~)",
        ));
    }
    Ok((operator, Operand::Literal(Literal::read(value)?)))
}

/// The inside of a text that is quoted from its first character to its last. A backslash keeps a quote or
/// another backslash; before anything else it stands for itself.
pub(super) fn unquote(text: &str) -> Option<String> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let mut inside = String::with_capacity(text.len());
    let mut chars = text.chars().skip(1).peekable();
    while let Some(c) = chars.next() {
        if c == quote {
            return chars.peek().is_none().then_some(inside);
        }
        let kept = if c == '\\' {
            chars.next_if(|&next| next == quote || next == '\\')
        } else {
            None
        };
        inside.push(kept.unwrap_or(c));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::FactTerm;

    fn canonical(text: &str) -> String {
        FactTerm::parse(text)
            .unwrap_or_else(|error| panic!("{text}: {error}"))
            .to_string()
    }

    #[test]
    fn every_form_has_one_canonical_print() {
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
    fn what_is_no_term_is_refused_with_its_column() {
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
