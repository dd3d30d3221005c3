//! `-o FORM`: the form of results, with one meaning in all commands.

use std::path::PathBuf;

use muster_base::nearest_name;

/// The forms that `-o` selects. Each is another name of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultForm {
    /// Text, the default.
    Text,
    Json,
    Jsonl,
    Table,
    /// `--senders`.
    Name,
}

const FORMS: [(&str, ResultForm); 5] = [
    ("text", ResultForm::Text),
    ("json", ResultForm::Json),
    ("jsonl", ResultForm::Jsonl),
    ("table", ResultForm::Table),
    ("name", ResultForm::Name),
];

/// The value of `-o`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResultDestination {
    Form(ResultForm),
    /// A file, the meaning of `-o` in the earlier release. It is kept for one release.
    File(PathBuf),
}

impl ResultDestination {
    /// Parses the name of a form. A word that resembles one is refused instead of being a file.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some((_, form)) = FORMS.iter().find(|(name, _)| *name == text) {
            return Ok(Self::Form(*form));
        }
        if ["wide", "yaml"].contains(&text) || text.starts_with("jsonpath=") {
            return Err("only `rpc nodes` and `rpc checks` have this form".to_owned());
        }
        let is_path = text.contains(['.', '/']);
        match nearest_name(text, FORMS.iter().map(|(name, _)| *name)).filter(|_| !is_path) {
            Some(nearest) => Err(format!(
                "did you mean {nearest:?}? Forms are text, json, jsonl, table and name; --output-file writes a file"
            )),
            None => Ok(Self::File(PathBuf::from(text))),
        }
    }

    pub fn form(&self) -> Option<ResultForm> {
        match self {
            Self::Form(form) => Some(*form),
            Self::File(_) => None,
        }
    }

    pub fn into_file(self) -> Option<PathBuf> {
        match self {
            Self::Form(_) => None,
            Self::File(path) => Some(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ResultDestination, ResultForm};

    #[test]
    fn forms_are_distinguished_from_files() {
        let parse = ResultDestination::parse;
        assert_eq!(parse("json"), Ok(ResultDestination::Form(ResultForm::Json)));
        assert_eq!(parse("results"), Ok(ResultDestination::File("results".into())));
        assert_eq!(parse("a.json"), Ok(ResultDestination::File("a.json".into())));
        for text in ["jsno", "yaml", "jsonpath={.a}"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
