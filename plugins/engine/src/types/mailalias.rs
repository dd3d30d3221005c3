//! `mailalias`: an entry of `/etc/aliases`. Does not run `newaliases`; an exec that is notified does.

use crate::error::EngineError;
use crate::plan::{Change, Plan, State};
use crate::providers::parsed_file::{Format, ParsedFile, Record};
use crate::resource::{Resource, Value, Values};
use crate::resource_type::{Cx, ResourceType, Siblings, Wanted};
use crate::schema::{Attribute, Kind, Schema};

const ALIASES: &str = "/etc/aliases";
const INCLUDE: &str = ":include:";

static SCHEMA: Schema = Schema {
    type_name: "mailalias",
    doc: "A mail alias: a local name, and where its mail goes.",
    namevar: "name",
    attributes: &[
        Attribute::property(
            "ensure",
            Kind::Word(&["present", "absent"]),
            "Whether the alias is there.",
        )
        .or("present"),
        Attribute::property("recipient", Kind::List, "Where the mail goes."),
        Attribute::property(
            "file",
            Kind::Path,
            "A file that holds the recipients, instead of `recipient`.",
        ),
        Attribute::property("target", Kind::Path, "The file of aliases.").or(ALIASES),
        Attribute::parameter(
            "provider",
            Kind::Word(&["aliases"]),
            "How it is done; there is one way.",
        )
        .or("aliases"),
        Attribute::parameter("name", Kind::Text, "The local name."),
    ],
};

/// The type.
#[derive(Debug)]
pub struct Mailalias;

impl ResourceType for Mailalias {
    fn schema(&self) -> &'static Schema {
        &SCHEMA
    }

    fn check(&self, mut resource: Resource) -> Result<Resource, EngineError> {
        let (recipient, file) = (
            resource.get("recipient").is_some(),
            resource.get("file").is_some(),
        );
        if recipient && file {
            return Err(EngineError::invalid(
                &resource,
                "file",
                "is given together with `recipient`; choose one",
            ));
        }
        if resource
            .name
            .contains(|c: char| c.is_whitespace() || c.is_control() || "#:\"\\".contains(c))
        {
            let problem = format!(
                "is `{}`, must be without blanks, `#`, `:`, `\"` and `\\`",
                resource.name
            );
            return Err(EngineError::invalid(&resource, "name", problem));
        }
        let bad =
            |recipient: &&str| recipient.trim().is_empty() || recipient.contains(['\n', '\r']);
        if let Some(recipient) = resource.list("recipient").into_iter().find(bad) {
            let problem = format!(
                "contains `{}`, must be one line with something on it",
                recipient.escape_debug()
            );
            return Err(EngineError::invalid(&resource, "recipient", problem));
        }
        // One form takes the other's place.
        if recipient || file {
            let other = if recipient { "file" } else { "recipient" };
            resource
                .values
                .insert(other.to_owned(), Value::from("absent"));
        }
        Ok(resource)
    }

    fn read(&self, cx: &Cx<'_>, resource: &Resource) -> Result<State, EngineError> {
        file(resource).read(cx, resource)
    }

    fn apply(&self, cx: &Cx<'_>, plan: &Plan, _: &Change) -> Result<(), EngineError> {
        file(&plan.resource).apply(cx, &SCHEMA, plan)
    }

    /// The file that it is a line of.
    fn autorequires(&self, resource: &Resource, _: &dyn Siblings) -> Vec<Wanted> {
        file(resource).autorequires()
    }

    fn instances(&self, cx: &Cx<'_>) -> Result<Vec<(String, Values)>, EngineError> {
        let all = Resource::named(&SCHEMA, "*")?;
        file(&all)
            .instances(cx.system)
            .map_err(EngineError::during(&all, "listing aliases"))
    }
}

fn file(resource: &Resource) -> ParsedFile {
    ParsedFile::plain(&AliasesFormat, resource.text("target").unwrap_or(ALIASES))
}

/// `name: recipient, recipient`, or `name: :include: /path`; lines that begin with a blank continue the one before.
#[derive(Debug)]
pub struct AliasesFormat;

impl Format for AliasesFormat {
    fn take(&self, lines: &[&str]) -> (usize, Option<Record>) {
        let continues = |line: &&&str| line.starts_with([' ', '\t']) && !line.trim().is_empty();
        let (Some(first), rest) = (lines.first(), lines.get(1..).unwrap_or_default()) else {
            return (1, None);
        };
        if first.starts_with(['#', ' ', '\t']) || first.trim().is_empty() {
            return (1, None);
        }
        let more: Vec<&str> = rest.iter().take_while(continues).copied().collect();
        let line = std::iter::once(*first)
            .chain(more.iter().copied())
            .collect::<Vec<_>>()
            .join(" ");
        (1 + more.len(), parse(&line))
    }

    fn render(&self, record: &Record) -> Result<String, String> {
        if let Some(recipients) = record.values.get("recipient") {
            let recipients: Vec<String> = recipients.as_list().into_iter().map(quote).collect();
            return Ok(format!("{}: {}\n", record.name, recipients.join(",")));
        }
        let file = record.values.get("file").and_then(Value::as_text);
        file.map(|file| format!("{}: {INCLUDE} {file}\n", record.name))
            .ok_or_else(|| "an alias needs `recipient` or `file`".to_owned())
    }
}

/// Quotes what is more than a plain address.
fn quote(recipient: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-+_@.".contains(c);
    if recipient.chars().all(plain) {
        return recipient.to_owned();
    }
    format!(
        "\"{}\"",
        recipient.replace('\\', "\\\\").replace('"', "\\\"")
    )
}

fn parse(line: &str) -> Option<Record> {
    let (name, rest) = line.split_once(':')?;
    let (name, rest) = (name.trim().trim_matches('"'), rest.trim());
    let include = rest
        .strip_prefix(INCLUDE)
        .map(str::trim)
        .filter(|path| !path.contains(','));
    let (key, value) = match include {
        Some("") => return None,
        Some(path) => ("file", Value::from(path)),
        None => (
            "recipient",
            Value::List(Some(split(rest)).filter(|all| !all.is_empty())?),
        ),
    };
    let values = Values::from([(key.to_owned(), value)]);
    (!name.is_empty()).then(|| Record {
        name: name.to_owned(),
        values,
    })
}

/// Splits at commas outside quotes, and takes the quotes away.
fn split(text: &str) -> Vec<String> {
    let (mut parts, mut part, mut quoted) = (Vec::new(), String::new(), false);
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => quoted = !quoted,
            '\\' if quoted => part.extend(letters.next()),
            ',' if !quoted => parts.push(std::mem::take(&mut part)),
            // Blanks outside quotes only separate.
            blank if !quoted && blank.is_whitespace() && part.is_empty() => {}
            other => part.push(other),
        }
    }
    parts.push(part);
    parts
        .into_iter()
        .map(|part| part.trim_end().to_owned())
        .filter(|part| !part.is_empty())
        .collect()
}
