//! Suggests a similar name for a misspelt one.

/// Returns the known name nearest to `word`, if it is similar enough to be a typo.
pub fn nearest_name<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    // Longer words are not typos of names, and the cost of the distance grows with the product of the lengths.
    if word.len() > 64 {
        return None;
    }
    let distances = known.map(|name| (strsim::damerau_levenshtein(name, word), name));
    let (distance, name) = distances.min()?;
    (distance <= 1 + name.len() / 4).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::nearest_name;

    #[test]
    fn slips_are_understood_and_other_words_are_not() {
        let known = || ["puppetral", "rpcutil"].into_iter();
        assert_eq!(nearest_name("rpcutl", known()), Some("rpcutil".to_owned()));
        assert_eq!(
            nearest_name("pupetrla", known()),
            Some("puppetral".to_owned())
        );
        assert_eq!(nearest_name("service", known()), None);
        assert_eq!(nearest_name(&"x".repeat(100_000), known()), None);
        assert_eq!(nearest_name("x", std::iter::empty()), None);
    }
}
