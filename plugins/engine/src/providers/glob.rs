//! Matches file names against patterns such as `*.conf`, by the rules of Ruby's `File.fnmatch`: `*`, `?`, `[a-c]`, `[^a]` and `\`.
//!
//! Matches one name, never a path. Pure; runs in time proportional to the product of both lengths.

enum GlobToken {
    Star,
    AnyChar,
    Literal(char),
    /// Ranges, and whether the set is negated.
    Set(Vec<(char, char)>, bool),
    /// An unclosed bracket; matches nothing.
    Invalid,
}

/// Without `dots`, a leading dot must be matched by a literal dot, as in a shell.
pub fn matches_pattern(pattern: &str, name: &str, dots: bool) -> bool {
    let tokens = parse_tokens(pattern);
    let name: Vec<char> = name.chars().collect();
    let hidden = name.first() == Some(&'.') && !dots;
    if hidden && !matches!(tokens.first(), Some(GlobToken::Literal('.'))) {
        return false;
    }
    let (mut token_index, mut position) = (0, 0);
    // Backtracking point: the last star in the pattern, and the position in the name when it was reached.
    let mut star: Option<(usize, usize)> = None;
    while position < name.len() {
        match (tokens.get(token_index), name.get(position)) {
            (Some(GlobToken::Star), _) => {
                star = Some((token_index, position));
                token_index += 1;
            }
            (Some(found), Some(letter)) if found.matches_char(*letter) => {
                token_index += 1;
                position += 1;
            }
            _ => match star {
                // Backtrack: the star consumes one more character.
                Some((star_index, consumed)) => {
                    star = Some((star_index, consumed + 1));
                    token_index = star_index + 1;
                    position = consumed + 1;
                }
                None => return false,
            },
        }
    }
    tokens
        .get(token_index..)
        .is_some_and(|rest| rest.iter().all(|token| matches!(token, GlobToken::Star)))
}

impl GlobToken {
    fn matches_char(&self, letter: char) -> bool {
        match self {
            Self::Star | Self::Invalid => false,
            Self::AnyChar => true,
            Self::Literal(literal) => *literal == letter,
            Self::Set(ranges, negated) => {
                ranges.iter().any(|(from, to)| (*from..=*to).contains(&letter)) != *negated
            }
        }
    }
}

fn parse_tokens(pattern: &str) -> Vec<GlobToken> {
    let letters: Vec<char> = pattern.chars().collect();
    let mut tokens = Vec::new();
    let mut rest = letters.as_slice();
    while let Some((first, more)) = rest.split_first() {
        rest = more;
        match first {
            '*' => tokens.push(GlobToken::Star),
            '?' => tokens.push(GlobToken::AnyChar),
            '[' => match parse_set(more) {
                Some((set, after)) => {
                    tokens.push(set);
                    rest = after;
                }
                None => tokens.push(GlobToken::Invalid),
            },
            // A trailing backslash is ignored.
            '\\' => {
                if let Some((quoted, after)) = more.split_first() {
                    tokens.push(GlobToken::Literal(*quoted));
                    rest = after;
                }
            }
            plain => tokens.push(GlobToken::Literal(*plain)),
        }
    }
    tokens
}

/// Parses a bracket expression; returns the token and the rest of the pattern.
fn parse_set(letters: &[char]) -> Option<(GlobToken, &[char])> {
    let (negated, mut rest) = match letters.split_first() {
        Some(('^' | '!', rest)) => (true, rest),
        _ => (false, letters),
    };
    let mut ranges = Vec::new();
    loop {
        let (first, more) = rest.split_first()?;
        if *first == ']' {
            // An empty set matches nothing, even if negated.
            let token = if ranges.is_empty() {
                GlobToken::Invalid
            } else {
                GlobToken::Set(ranges, negated)
            };
            return Some((token, more));
        }
        let (from, more) = if *first == '\\' { more.split_first()? } else { (first, more) };
        rest = more;
        if let ['-', to, after @ ..] = rest
            && *to != ']'
        {
            ranges.push((*from, *to));
            rest = after;
        } else {
            ranges.push((*from, *from));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::matches_pattern;

    /// Patterns, and for each name whether it matches in Ruby 3.1: first without flags, then with `FNM_DOTMATCH`.
    const RUBY: &str = r"
*|1111101110111111110|1111111111111111111
*.rb|0000000010000000000|0000000011000000000
a?c|0010000000000000000|0010000000000000000
[a-c]x|0001000000000000000|0001000000000000000
[^a-c]x|0000100000000000000|0000110000000000000
[!a]x|0000100000000000000|0000110000000000000
\*|0000000100000000000|0000000100000000000
a*b*c|0010000000100000000|0010000000100000000
?|0100001100000000100|0100001100000000100
[]|0000000000000000000|0000000000000000000
[a|0000000000000000000|0000000000000000000
a\|0100000000000000000|0100000000000000000
[.]x|0000000000000000000|0000010000000000000
.*|0000010001000000001|0000010001000000001
[*]|0000000100000000000|0000000100000000000
{a,b}|0000000000000001000|0000000000000001000
[a-]|0100000000000000100|0100000000000000100
x[]]y|0000000000000000000|0000000000000000000
";
    const NAMES: [&str; 19] = [
        "", "a", "abc", "ax", "dx", ".x", "x", "*", "a.rb", ".rb", "aXbYc", "-x-", "[]", "[a",
        "a\\", "{a,b}", "-", "x]y", ".a",
    ];

    #[test]
    fn names_match_as_in_ruby() {
        for line in RUBY.lines().filter(|line| !line.is_empty()) {
            let parts: Vec<&str> = line.split('|').collect();
            for (dots, wanted) in [(false, parts[1]), (true, parts[2])] {
                for (name, wanted) in NAMES.iter().zip(wanted.chars()) {
                    assert_eq!(
                        matches_pattern(parts[0], name, dots),
                        wanted == '1',
                        "{} and {name} with dots {dots}",
                        parts[0]
                    );
                }
            }
        }
    }

    proptest! {
        #[test]
        fn escaped_name_matches_only_itself(name in "\\PC{1,20}", other in "\\PC{1,20}") {
            let quoted: String = name.chars().flat_map(|letter| ['\\', letter]).collect();
            prop_assert!(matches_pattern(&quoted, &name, true));
            prop_assert_eq!(matches_pattern(&quoted, &other, true), name == other);
        }

        #[test]
        fn matching_terminates_for_any_pattern(pattern in "[a*?\\[\\]^\\\\-]{0,40}", name in "[ab-]{0,40}") {
            let _ = matches_pattern(&pattern, &name, true);
        }
    }
}
