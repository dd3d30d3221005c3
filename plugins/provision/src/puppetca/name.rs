//! Validates certificate names: accepts what Puppet's authority accepts, and nothing that could be read as a path or an option.

use std::fmt;

use crate::puppetca::authority::CaError;

/// A validated name: lower case letters, digits, `.`, `_` and `-`, not beginning with `.` or `-`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CertName(String);

impl CertName {
    /// Longest name in bytes, as for host names.
    const MAX_NAME_BYTES: usize = 253;

    pub(crate) fn parse(text: &str) -> Result<Self, CaError> {
        let is_allowed =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
        let is_valid = !text.is_empty()
            && text.len() <= Self::MAX_NAME_BYTES
            && text.bytes().all(is_allowed)
            && !text.starts_with(['.', '-'])
            && !text.contains("..");
        if is_valid {
            Ok(Self(text.to_owned()))
        } else {
            Err(CaError::Name { name: text.escape_debug().to_string() })
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CertName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::CertName;

    #[test]
    fn accepts_lower_case_host_names_only() {
        for good in ["web1.acme.net", "a", "node_1", "a-b.c", "0"] {
            assert_eq!(CertName::parse(good).unwrap().as_str(), good);
        }
        let long = "a".repeat(254);
        for bad in
            ["", "Web1", "a/b", "..", "a..b", ".a", "-a", "--all", "a b", "a\n", "é", "*", &long]
        {
            assert!(CertName::parse(bad).is_err(), "{bad:?}");
        }
    }
}
