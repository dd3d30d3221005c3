//! Resource references: `File[/etc/motd]`.

use std::fmt;
use std::str::FromStr;

use super::CatalogError;
use crate::resource::{capitalise_name, format_reference};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceReference {
    /// Lower case, such as `file` or `site::vhost`.
    pub type_name: String,
    /// As written; class names in lower case.
    pub title: String,
}

impl ResourceReference {
    /// Builds a reference from a type name in any case and a title. Class names are case-insensitive.
    pub fn new(type_name: &str, title: &str) -> Self {
        let type_name = type_name.to_lowercase();
        let title = if type_name == "class" {
            title.trim_start_matches("::").to_lowercase()
        } else {
            title.to_owned()
        };
        Self { type_name, title }
    }

    /// The display form of a class name: `Site::Web`.
    pub fn class_name(&self) -> String {
        capitalise_name(&self.title)
    }
}

impl fmt::Display for ResourceReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.type_name == "class" && self.title != "main" {
            return f.write_str(&format_reference("class", &self.class_name()));
        }
        f.write_str(&format_reference(&self.type_name, &self.title))
    }
}

impl FromStr for ResourceReference {
    type Err = CatalogError;

    /// Splits at the first `[` and the last `]`, because a title may contain brackets.
    fn from_str(text: &str) -> Result<Self, CatalogError> {
        let invalid = || CatalogError::Reference { text: text.chars().take(200).collect() };
        let (type_name, rest) = text.split_once('[').ok_or_else(invalid)?;
        let title = rest.strip_suffix(']').ok_or_else(invalid)?;
        let is_valid_segment = |segment: &str| {
            segment.starts_with(|c: char| c.is_ascii_alphabetic())
                && segment.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        if title.is_empty() || !type_name.split("::").all(is_valid_segment) {
            return Err(invalid());
        }
        Ok(Self::new(type_name, title))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::ResourceReference;

    #[test]
    fn titles_may_contain_brackets_quotes_and_newlines() {
        for text in [
            "File[/etc/motd]",
            "Site::Vhost[x y]",
            "Exec[odd] title[x 'q' \"d\" é\n nl]",
            "Class[Site::Web]",
            "Class[main]",
            "Stage[main]",
        ] {
            let reference: ResourceReference = text.parse().expect("a reference");
            assert_eq!(reference.to_string(), text);
        }
        assert_eq!(
            "class[site::web]".parse::<ResourceReference>().ok(),
            "Class[Site::Web]".parse().ok()
        );
    }

    #[test]
    fn invalid_references_are_refused() {
        for text in ["", "File", "[x]", "File[]", "File[x", "1le[x]", "a b[x]", "File::[x]"] {
            assert!(text.parse::<ResourceReference>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_title_survives_a_round_trip(title in "\\PC{1,40}") {
            let reference = ResourceReference::new("File", &title);
            prop_assert_eq!(reference.to_string().parse::<ResourceReference>().ok(), Some(reference));
        }
    }
}
