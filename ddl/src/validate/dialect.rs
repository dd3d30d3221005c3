//! Translates Ruby and Go patterns of published DDLs where the same text has another meaning in Rust's `regex`:
//!
//! | pattern | Ruby, Go | Rust, untranslated |
//! |---|---|---|
//! | `^{.+}$` | a literal brace | an error |
//! | `\d`, `\w`, `\s` | ASCII only | all of Unicode |
//! | `[[]`, `[a&&b]`, `[~~]` | literals | nested classes, set operators |
//!
//! Patterns are not validated: an invalid one is passed on unchanged, and fails to compile.

/// `pattern` in the syntax of Rust's `regex`.
pub(super) fn translate_pattern(pattern: &str) -> String {
    let mut rest = pattern;
    let mut output = String::with_capacity(pattern.len());
    let mut in_class = false;
    while let Some(character) = rest.chars().next() {
        let consumed = match character {
            '\\' => translate_escape(rest, &mut output),
            '[' if !in_class => {
                in_class = true;
                translate_class_opening(rest, &mut output)
            }
            '[' => translate_bracket_in_class(rest, &mut output),
            ']' if in_class => {
                in_class = false;
                copy_bytes(rest, 1, &mut output)
            }
            '&' | '~' if in_class => push_escaped(character, &mut output),
            '{' if !in_class && counted_repetition(rest).is_none() => {
                push_escaped(character, &mut output)
            }
            '{' if !in_class => {
                copy_bytes(rest, counted_repetition(rest).unwrap_or(1), &mut output)
            }
            '}' if !in_class => push_escaped(character, &mut output),
            _ => copy_bytes(rest, character.len_utf8(), &mut output),
        };
        rest = rest.get(consumed..).unwrap_or_default();
    }
    output
}

/// Copies `length` bytes, and returns their number.
fn copy_bytes(rest: &str, length: usize, output: &mut String) -> usize {
    output.push_str(rest.get(..length).unwrap_or(rest));
    length
}

fn push_escaped(character: char, output: &mut String) -> usize {
    output.push('\\');
    output.push(character);
    character.len_utf8()
}

/// Translates an escape sequence. Bracketed classes may occur inside classes too.
fn translate_escape(rest: &str, output: &mut String) -> usize {
    let class = match rest.as_bytes().get(1) {
        Some(b'd') => "[0-9]",
        Some(b'D') => "[^0-9]",
        Some(b'w') => "[0-9A-Za-z_]",
        Some(b'W') => "[^0-9A-Za-z_]",
        Some(b's') => r"[\t\n\x0B\f\r ]",
        Some(b'S') => r"[^\t\n\x0B\f\r ]",
        // `\p{Greek}`, `\x{1F600}`: the braces belong to the escape.
        Some(b'p' | b'P' | b'x') if rest.as_bytes().get(2) == Some(&b'{') => {
            return copy_bytes(rest, rest.find('}').map_or(rest.len(), |end| end + 1), output);
        }
        _ => {
            let escaped = rest.chars().take(2).map(char::len_utf8).sum();
            return copy_bytes(rest, escaped, output);
        }
    };
    output.push_str(class);
    2
}

/// `[`, `[^`, `[]` or `[^]`: a leading bracket is a literal.
fn translate_class_opening(rest: &str, output: &mut String) -> usize {
    let negated = usize::from(rest.as_bytes().get(1) == Some(&b'^'));
    let literal_bracket = rest.as_bytes().get(1 + negated) == Some(&b']');
    let length = copy_bytes(rest, 1 + negated, output);
    if literal_bracket {
        output.push_str(r"\]");
    }
    length + usize::from(literal_bracket)
}

/// `[:alpha:]` is a class inside a class; every other bracket there is a literal.
fn translate_bracket_in_class(rest: &str, output: &mut String) -> usize {
    let posix = rest.strip_prefix("[:").and_then(|name| name.find(":]"));
    match posix {
        Some(end) => copy_bytes(rest, end + 4, output),
        None => push_escaped('[', output),
    }
}

/// The length of `{2}`, `{2,}` or `{2,5}` at the start of `rest`.
fn counted_repetition(rest: &str) -> Option<usize> {
    let end = rest.find('}')?;
    let (min, max) = {
        let counts = rest.get(1..end)?;
        counts.split_once(',').unwrap_or((counts, ""))
    };
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    (!min.is_empty() && is_digits(min) && is_digits(max)).then_some(end + 1)
}

#[cfg(test)]
mod tests {
    use super::translate_pattern;

    fn matches(pattern: &str, text: &str) -> bool {
        regex::Regex::new(&translate_pattern(pattern)).unwrap().is_match(text)
    }

    #[test]
    fn braces_without_a_repetition_are_literals() {
        assert!(matches("^{.+}$", r#"{"a":1}"#));
        assert!(!matches("^{.+}$", "a"));
        assert!(matches("^a{2}$", "aa"));
        assert!(!matches("^a{2,3}$", "aaaa"));
        assert!(matches("^a{,2}$", "a{,2}"), "Go treats a missing minimum as text");
        assert!(matches(r"^\p{Greek}\x{41}$", "λA"));
    }

    #[test]
    fn shorthand_classes_are_ascii_inside_and_outside_of_brackets() {
        assert!(matches(r"^\w+$", "az_09"));
        assert!(!matches(r"^\w+$", "é"));
        assert!(!matches(r"^[\d.]+$", "١"));
        assert!(matches(r"^[\w\s-]+$", "Old Town-1"));
        assert!(matches(r"^[^\s]+$", "a\u{a0}b"));
        assert!(matches(r"^\S\D\W$", "ab-"));
    }

    #[test]
    fn brackets_and_set_operators_in_classes_are_literals() {
        assert!(matches("^[[]$", "["));
        assert!(matches("^[]a]+$", "]a"));
        assert!(matches("^[^]a]$", "b"));
        assert!(matches("^[a&&b~~]+$", "a&~b"));
        assert!(matches("^[[:digit:]x]+$", "1x"));
        assert!(matches(r"^\[\\]$", r"[\]"));
    }

    #[test]
    fn patterns_of_published_ddls_match_as_intended() {
        let host =
            r"^(([a-z0-9]|[a-z0-9][a-z0-9-]*[a-z0-9])\.)*([a-z0-9]|[a-z0-9][a-z0-9-]*[a-z0-9])$";
        for (pattern, good, bad) in [
            (host, "a-1.example.net", "a-.example.net"),
            (r"^\s*[\w\.\-]+(\s*,\s*[\w\.\-]+)*$", " os.family, a-b", "a,,b"),
            (r"^[\w-]+$", "a-b_c", "a.b"),
            (r"^http(s*)://", "https://x", "ftp://x"),
            (r"^\/[^\/]+$", "/etc", "/etc/x"),
            (r"^-----BEGIN CERTIFICATE-----", "-----BEGIN CERTIFICATE-----\nx", "x"),
            (
                r"\A[a-f0-9]{8}(-[a-f0-9]{4}){3}\z",
                "0123abcd-0123-0123-0123",
                "0123abcd-0123-0123-0123\n",
            ),
            (".", "x", ""),
        ] {
            assert!(matches(pattern, good), "{pattern} {good:?}");
            assert!(!matches(pattern, bad), "{pattern} {bad:?}");
        }
    }
}
