//! Names of JSON DDLs for the names of Ruby DDLs, which may contain other characters.

use std::collections::{BTreeMap, BTreeSet};

/// Longest name, in characters.
const MAX_NAME_CHARS: usize = 64;

/// Whether a name may contain upper-case letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameCase {
    /// Names of agents and actions are parts of subjects.
    Lower,
    /// Names of inputs and outputs.
    Any,
}

/// The name with all other characters than letters, digits and `_` replaced by `_`.
pub(super) fn convert_name(name: &str, case: NameCase) -> String {
    let allowed = |character: char| match character {
        'a'..='z' | '0'..='9' => character,
        'A'..='Z' if case == NameCase::Any => character,
        'A'..='Z' => character.to_ascii_lowercase(),
        _ => '_',
    };
    let converted: String = name.chars().map(allowed).take(MAX_NAME_CHARS).collect();
    if converted.is_empty() { "_".to_owned() } else { converted }
}

/// The names of actions, of inputs, or of outputs, each with its name in JSON.
#[derive(Debug, Default)]
pub(super) struct ConvertedNames {
    /// By the name in Ruby, and whether it is a symbol: Ruby distinguishes `:name` from `"name"`.
    names: BTreeMap<(String, bool), String>,
    taken: BTreeSet<String>,
}

impl ConvertedNames {
    /// The name in JSON for a new name, with a number if another name is the same in JSON; `None` if the name exists.
    pub(super) fn add(&mut self, name: &str, is_symbol: bool, case: NameCase) -> Option<String> {
        let key = (name.to_owned(), is_symbol);
        if self.names.contains_key(&key) {
            return None;
        }
        let plain = convert_name(name, case);
        let stem: String = plain.chars().take(MAX_NAME_CHARS - 8).collect();
        let numbered = (2..self.taken.len() + 3).map(|number| format!("{stem}_{number}"));
        // One of these is free, because there are more of them than names.
        let free =
            std::iter::once(plain).chain(numbered).find(|name| !self.taken.contains(name))?;
        self.taken.insert(free.clone());
        self.names.insert(key, free.clone());
        Some(free)
    }

    /// The name in JSON of a name, preferably of a symbol.
    pub(super) fn find(&self, name: &str) -> Option<&str> {
        let find = |is_symbol| self.names.get(&(name.to_owned(), is_symbol));
        find(true).or_else(|| find(false)).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::{ConvertedNames, NameCase, convert_name};

    #[test]
    fn other_characters_are_replaced() {
        assert_eq!(convert_name("Block-IP.v4", NameCase::Lower), "block_ip_v4");
        assert_eq!(convert_name("Max", NameCase::Any), "Max");
        assert_eq!(convert_name("", NameCase::Any), "_");
        assert_eq!(convert_name(&"ä".repeat(99), NameCase::Any).len(), 64);
    }

    #[test]
    fn clashes_are_numbered_and_repetitions_refused() {
        let mut names = ConvertedNames::default();
        let mut add = |name, is_symbol| names.add(name, is_symbol, NameCase::Any);
        assert_eq!(add("a_b", true).as_deref(), Some("a_b"));
        assert_eq!(add("a_b", false).as_deref(), Some("a_b_2"));
        assert_eq!(add("a-b", true).as_deref(), Some("a_b_3"));
        assert_eq!(add("a_b", true), None);
        assert_eq!((names.find("a-b"), names.find("c")), (Some("a_b_3"), None));
    }
}
