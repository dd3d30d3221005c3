//! `mailalias`: an entry of `/etc/aliases`. Does not run `newaliases`; use an exec that subscribes to it.

use std::collections::BTreeSet;

use crate::error::{EngineError, Result};
use crate::providers::parsed_file::{
    FileRecord, IncompleteRecord, LineGroup, RecordFormat, RecordResourceType,
};
use crate::resource::{Resource, ResourceValue, name_values};
use crate::schema::AttributeKind::{AbsolutePath, List, Text};
use crate::schema::{TypeSchema, parameter, presence_property, property, provider_parameter};

const ALIASES_FILE: &str = "/etc/aliases";
const INCLUDE_PREFIX: &str = ":include:";

static SCHEMA: TypeSchema = TypeSchema {
    type_name: "mailalias",
    doc: "A mail alias: a local name and its recipients.",
    namevar: "name",
    attributes: &[
        presence_property("Whether the alias exists."),
        property("recipient", List, "The recipients.").split_at_commas(),
        property("file", AbsolutePath, "A file with the recipients, instead of `recipient`."),
        property("target", AbsolutePath, "The aliases file.").with_default(ALIASES_FILE),
        provider_parameter(&["aliases"]),
        parameter("name", Text, "The local name."),
    ],
};

pub const MAILALIAS_TYPE: RecordResourceType = RecordResourceType {
    schema: &SCHEMA,
    format: &AliasesFormat,
    default_path: ALIASES_FILE,
    listing: "listing aliases",
    list_delimiter: None,
    check: check_mailalias,
};

fn check_mailalias(mut resource: Resource) -> Result<Resource> {
    let (has_recipient, has_file) =
        (resource.get("recipient").is_some(), resource.get("file").is_some());
    if has_recipient && has_file {
        let problem = "is given together with `recipient`; choose one";
        return Err(EngineError::invalid_value(&resource, "file", problem));
    }
    if resource.name.contains(|c: char| c.is_whitespace() || c.is_control() || "#:\"\\".contains(c))
    {
        let problem =
            format!("is `{}`, must not contain blanks, `#`, `:`, `\"` or `\\`", resource.name);
        return Err(EngineError::invalid_value(&resource, "name", problem));
    }
    resource.check_items("recipient", "a single line that is not empty", |recipient| {
        !recipient.trim().is_empty() && !recipient.contains(['\n', '\r'])
    })?;
    // `recipient` and `file` replace each other.
    if has_recipient || has_file {
        let other = if has_recipient { "file" } else { "recipient" };
        resource.set_value(other, "absent");
    }
    Ok(resource)
}

/// `name: recipient, recipient`, or `name: :include: /path`. Lines that start with a blank continue the record, also after comments and blank
/// lines.
#[derive(Debug)]
pub struct AliasesFormat;

impl RecordFormat for AliasesFormat {
    fn parse_line(&self, line: &str) -> Option<FileRecord> {
        parse_alias(line)
    }

    fn parse_record(&self, lines: &[&str]) -> LineGroup {
        let is_ignored = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
        let continues = |line: &str| line.starts_with([' ', '\t']);
        let first = lines.first().filter(|line| !is_ignored(line) && !continues(line));
        let Some(mut text) = first.map(|line| (*line).to_owned()) else {
            return LineGroup::single(None);
        };
        let (mut count, mut between) = (1, BTreeSet::new());
        for (at, line) in lines.iter().enumerate().skip(1).filter(|(_, line)| !is_ignored(line)) {
            if !continues(line) {
                break;
            }
            between.extend(count..at);
            text.extend([" ", line]);
            count = at + 1;
        }
        LineGroup { count, between, record: self.parse_line(&text) }
    }

    fn render(&self, record: &FileRecord) -> Result<String, IncompleteRecord> {
        let is_quoted = record.name.contains(|c: char| c.is_whitespace() || "#:\"\\".contains(c));
        let name = if is_quoted { quote_text(&record.name) } else { record.name.clone() };
        if record.values.contains_key("recipient") {
            let recipients = record.get_list("recipient").into_iter().map(quote_recipient);
            return Ok(format!("{name}: {}\n", recipients.collect::<Vec<_>>().join(",")));
        }
        let file = record.require_text("file", "an alias needs `recipient` or `file`")?;
        Ok(format!("{name}: {INCLUDE_PREFIX} {file}\n"))
    }
}

/// Quotes a recipient that is not a plain address.
fn quote_recipient(recipient: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-+_@.".contains(c);
    if recipient.chars().all(plain) {
        return recipient.to_owned();
    }
    quote_text(recipient)
}

fn quote_text(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn parse_alias(line: &str) -> Option<FileRecord> {
    let (name, rest) = split_name(line)?;
    let rest = rest.trim();
    let include =
        rest.strip_prefix(INCLUDE_PREFIX).map(str::trim).filter(|path| !path.contains(','));
    let value = match include {
        Some(path) => ("file", path.into()),
        None => ("recipient", ResourceValue::List(split_recipients(rest))),
    };
    let is_complete = !name.is_empty() && value.1.as_list().iter().any(|text| !text.is_empty());
    is_complete.then(|| FileRecord { name, values: name_values([value]) })
}

/// The name without its quotes, and the text after the colon.
fn split_name(line: &str) -> Option<(String, &str)> {
    let Some(quoted) = line.strip_prefix('"') else {
        let (name, rest) = line.split_once(':')?;
        return Some((name.trim().to_owned(), rest));
    };
    let (mut name, mut letters) = (String::new(), quoted.char_indices());
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => {
                let (_, rest) = quoted.split_at_checked(at + 1)?;
                return Some((name, rest.trim_start().strip_prefix(':')?));
            }
            '\\' => name.extend(letters.next().map(|(_, escaped)| escaped)),
            other => name.push(other),
        }
    }
    None
}

/// Splits at commas outside quotes and removes the quotes.
fn split_recipients(text: &str) -> Vec<String> {
    let (mut parts, mut part, mut quoted) = (Vec::new(), String::new(), false);
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => quoted = !quoted,
            '\\' if quoted => part.extend(letters.next()),
            ',' if !quoted => parts.push(std::mem::take(&mut part)),
            // Leading blanks outside quotes are separators.
            blank if !quoted && blank.is_whitespace() && part.is_empty() => {}
            other => part.push(other),
        }
    }
    parts.push(part);
    let parts = parts.iter().map(|part| part.trim_end().to_owned());
    parts.filter(|part| !part.is_empty()).collect()
}
