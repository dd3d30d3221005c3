//! Where the value of an input comes from: the argument itself, a file, or the standard input. Pure; reads nothing.

use std::path::PathBuf;

/// The source of a value, as written after `KEY=`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputSource {
    /// The text itself.
    Text(String),
    /// The content of a file.
    File(PathBuf),
    /// The standard input.
    Stdin,
}

impl InputSource {
    /// Parses a value: `@FILE`, `-` or `@-` for the standard input, or the text itself. `@@` at the beginning stands for `@`, and `\-` for `-`. `None`
    /// for `@` without a file.
    pub fn parse(value: &str) -> Option<Self> {
        let before_dash = value.strip_suffix('-');
        if before_dash.is_some_and(|before| before.is_empty() || before == "@") {
            return Some(Self::Stdin);
        }
        // Only a value that consists of `-` and backslashes has an escape, so that all other values are used as they are.
        let is_escaped_dash = |before: &str| before.chars().all(|c| c == '\\');
        let text = match (value.strip_prefix('@'), before_dash) {
            (Some(""), _) => return None,
            (Some(rest), _) if rest.starts_with('@') => rest,
            (Some(path), _) => return Some(Self::File(path.into())),
            (None, Some(before)) if is_escaped_dash(before) => value.get(1..).unwrap_or(value),
            (None, _) => value,
        };
        Some(Self::Text(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::InputSource;

    #[test]
    fn values_name_files_and_the_standard_input() {
        let text = |text: &str| Some(InputSource::Text(text.to_owned()));
        let file = |path: &str| Some(InputSource::File(path.into()));
        for (value, source) in [
            ("", text("")),
            ("rip", text("rip")),
            ("-1", text("-1")),
            ("a-", text("a-")),
            ("rip@devco.net", text("rip@devco.net")),
            ("@motd", file("motd")),
            ("@/etc/a b", file("/etc/a b")),
            ("@./-", file("./-")),
            ("-", Some(InputSource::Stdin)),
            ("@-", Some(InputSource::Stdin)),
            ("@@", text("@")),
            ("@@home", text("@home")),
            ("@@-", text("@-")),
            ("@@@x", text("@@x")),
            ("\\-", text("-")),
            ("\\\\-", text("\\-")),
            ("\\-x", text("\\-x")),
            ("a\\-", text("a\\-")),
            ("@", None),
        ] {
            assert_eq!(InputSource::parse(value), source, "{value}");
        }
    }

    proptest! {
        #[test]
        fn every_text_can_be_written(text in "\\PC{0,8}|[@\\\\-]{0,6}") {
            let is_dash = text.strip_suffix('-').is_some_and(|rest| rest.chars().all(|c| c == '\\'));
            let written = match text.strip_prefix('@') {
                Some(_) => format!("@{text}"),
                None if is_dash => format!("\\{text}"),
                None => text.clone(),
            };
            prop_assert_eq!(InputSource::parse(&written), Some(InputSource::Text(text)));
        }
    }
}
