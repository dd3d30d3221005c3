//! Texts of errors and suggestions.

use std::cmp::Ordering;
use std::error::Error;
use std::fmt::{Display, Write as _};

/// Longer words are not typos of names, and the cost of the distance grows with the product of the lengths.
const MAX_WORD_BYTES: usize = 64;

/// Shortest beginning of a name that is taken for an abbreviation of it, in bytes.
const MIN_ABBREVIATION_BYTES: usize = 4;

/// The count, and the noun in singular or plural.
pub fn count_text<N: Copy + Display + PartialEq + From<u8>>(
    count: N,
    singular: &str,
    plural: &str,
) -> String {
    let noun = if count == N::from(1) { singular } else { plural };
    format!("{count} {noun}")
}

/// The error and its causes on one line: `cannot read /etc/passwd: permission denied`.
pub fn error_chain(error: &dyn Error) -> String {
    join_causes(error, ": ")
}

/// A message instead of the error's own, followed by the causes of the error on the same line.
pub fn with_causes(message: impl Into<String>, error: &dyn Error) -> String {
    append_causes(message.into(), error, ": ")
}

/// The error and its causes, joined by a separator. A cause that the text contains already is omitted: some libraries repeat the
/// text of a cause in the error itself.
pub fn join_causes(error: &dyn Error, separator: &str) -> String {
    append_causes(error.to_string(), error, separator)
}

fn append_causes(mut text: String, error: &dyn Error, separator: &str) -> String {
    let mut source = error.source();
    while let Some(cause) = source {
        let message = cause.to_string();
        if !text.contains(&message) {
            text.push_str(separator);
            text.push_str(&message);
        }
        source = cause.source();
    }
    text
}

/// The known name that a word was probably meant to be: one with at most a quarter of its letters mistyped, or else the shortest one
/// that begins with the word. Distance: Damerau and Levenshtein (inserted, left out, replaced and swapped letters).
pub fn nearest_name<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    if word.len() > MAX_WORD_BYTES {
        return None;
    }
    let rank = |name: &'a str| {
        let distance = strsim::damerau_levenshtein(name, word);
        let is_typo = distance <= 1 + name.len() / 4;
        let is_abbreviation = word.len() >= MIN_ABBREVIATION_BYTES && name.starts_with(word);
        (is_typo || is_abbreviation).then_some((!is_typo, distance, name))
    };
    let (_, _, nearest) = known.into_iter().filter_map(rank).min()?;
    Some(nearest.to_owned())
}

/// Compares two texts with their numbers by value, so that `db2` precedes `db10`. Only equal texts are equal: numbers that differ in leading zeros
/// alone are compared as text.
pub fn compare_natural(a: &str, b: &str) -> Ordering {
    let (mut rest_a, mut rest_b) = (a.as_bytes(), b.as_bytes());
    loop {
        let (number_a, after_a) = split_number(rest_a);
        let (number_b, after_b) = split_number(rest_b);
        let order = if number_a.is_empty() || number_b.is_empty() {
            match (rest_a.split_first(), rest_b.split_first()) {
                (Some((byte_a, after_a)), Some((byte_b, after_b))) if byte_a == byte_b => {
                    (rest_a, rest_b) = (after_a, after_b);
                    continue;
                }
                (Some((byte_a, _)), Some((byte_b, _))) => byte_a.cmp(byte_b),
                // One text is the beginning of the other, or numbers differ in leading zeros.
                _ => rest_a.len().cmp(&rest_b.len()).then_with(|| a.cmp(b)),
            }
        } else {
            let (digits_a, digits_b) = (strip_zeros(number_a), strip_zeros(number_b));
            (rest_a, rest_b) = (after_a, after_b);
            digits_a.len().cmp(&digits_b.len()).then_with(|| digits_a.cmp(digits_b))
        };
        if order.is_ne() || (rest_a.is_empty() && rest_b.is_empty()) {
            return order.then_with(|| a.cmp(b));
        }
    }
}

/// The leading digits, and the rest.
fn split_number(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

fn strip_zeros(digits: &[u8]) -> &[u8] {
    let start = digits.iter().position(|digit| *digit != b'0').unwrap_or(digits.len());
    digits.get(start..).unwrap_or_default()
}

/// The bytes in lower-case hexadecimal digits.
pub fn encode_hex(bytes: impl AsRef<[u8]>) -> String {
    let bytes = bytes.as_ref();
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Whether a terminal could interpret the character, or a reader could misread it.
pub fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{061c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use std::{fmt, io};

    use super::{compare_natural, encode_hex, error_chain, nearest_name, with_causes};

    #[derive(Debug)]
    struct Outer(&'static str, io::Error);

    impl fmt::Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl std::error::Error for Outer {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.1)
        }
    }

    #[test]
    fn error_chain_is_one_line_without_repetition() {
        let chain = |text| error_chain(&Outer(text, io::Error::other("no space")));
        assert_eq!(chain("cannot write"), "cannot write: no space");
        assert_eq!(chain("cannot write: no space"), "cannot write: no space");
        assert_eq!(error_chain(&io::Error::other("alone")), "alone");
        let error = Outer("cannot write", io::Error::other("no space"));
        assert_eq!(with_causes("no file", &error), "no file: no space");
    }

    #[test]
    fn suggests_names_for_typos_and_abbreviations() {
        let nearest = |word: &str| nearest_name(word, ["puppetral", "rpcutil", "rpcutil.ping"]);
        for (word, name) in [
            ("rpcutl", "rpcutil"),
            ("pupetrla", "puppetral"),
            ("puppet", "puppetral"),
            ("rpcu", "rpcutil"),
            ("rpcutil.pign", "rpcutil.ping"),
        ] {
            assert_eq!(nearest(word).as_deref(), Some(name), "{word}");
        }
        for word in ["service", "rpc", "", &"x".repeat(100_000)] {
            assert_eq!(nearest(word), None);
        }
        assert_eq!(nearest_name("x", []), None);
    }

    #[test]
    fn numbers_in_names_are_ordered_by_value() {
        let mut names = vec![
            "db10",
            "db2",
            "db",
            "db1.b",
            "db1.a10",
            "db1.a9",
            "db02",
            "db2a",
            "10",
            "9",
            "dba",
            "db-1",
            "db99999999999999999999999",
            "db100000000000000000000000",
        ];
        names.sort_by(|a, b| compare_natural(a, b));
        assert_eq!(
            names,
            [
                "9",
                "10",
                "db",
                "db-1",
                "db1.a9",
                "db1.a10",
                "db1.b",
                "db02",
                "db2",
                "db2a",
                "db10",
                "db99999999999999999999999",
                "db100000000000000000000000",
                "dba",
            ]
        );
        for a in &names {
            for b in &names {
                assert_eq!(compare_natural(a, b).is_eq(), a == b);
                assert_eq!(compare_natural(a, b), compare_natural(b, a).reverse());
            }
        }
    }

    #[test]
    fn hex_has_two_digits_per_byte() {
        assert_eq!(encode_hex([0, 10, 255]), "000aff");
        assert_eq!(encode_hex(b""), "");
    }
}
