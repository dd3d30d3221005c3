//! `sshkey`: the key of another host in a known-hosts file. Hashed names and marked lines are left alone.

use crate::error::EngineError;
use crate::plan::{Change, Plan, State};
use crate::providers::parsed_file::{Format, ParsedFile, Record};
use crate::resource::{Resource, Value, Values};
use crate::resource_type::{Cx, ResourceType, Siblings, Wanted};
use crate::schema::{Attribute, Kind, Schema};

const KNOWN_HOSTS: &str = "/etc/ssh/ssh_known_hosts";

static SCHEMA: Schema = Schema {
    type_name: "sshkey",
    doc: "The public key of a host, known by its name and the kind of key: `db.example.com@ssh-ed25519`.",
    namevar: "name",
    attributes: &[
        Attribute::property(
            "ensure",
            Kind::Word(&["present", "absent"]),
            "Whether the key is there.",
        )
        .or("present"),
        Attribute::property("key", Kind::Text, "The key itself, in base64."),
        Attribute::property(
            "host_aliases",
            Kind::List,
            "Other names of the host, in order.",
        ),
        Attribute::property("target", Kind::Path, "The file.").or(KNOWN_HOSTS),
        Attribute::parameter(
            "provider",
            Kind::Word(&["parsed"]),
            "How it is done; there is one way.",
        )
        .or("parsed"),
        Attribute::parameter("name", Kind::Text, "The name of the host."),
        Attribute::parameter(
            "type",
            Kind::Text,
            "The kind of key; the end of the title behind `@`, when it is not given.",
        ),
    ],
};

/// What is accepted as the kind of a key, and what each stands for.
const SHORT: [(&str, &str); 5] = [
    ("dsa", "ssh-dss"),
    ("ed25519", "ssh-ed25519"),
    ("rsa", "ssh-rsa"),
    ("ecdsa-sk", "sk-ecdsa-sha2-nistp256@openssh.com"),
    ("ed25519-sk", "sk-ssh-ed25519@openssh.com"),
];
const TYPES: [&str; 8] = [
    "ssh-dss",
    "ssh-ed25519",
    "ssh-rsa",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ecdsa-sha2-nistp256@openssh.com",
    "sk-ssh-ed25519@openssh.com",
];

/// The type.
#[derive(Debug)]
pub struct Sshkey;

impl ResourceType for Sshkey {
    fn schema(&self) -> &'static Schema {
        &SCHEMA
    }

    /// Makes name and kind the name by which the line is known.
    fn check(&self, mut resource: Resource) -> Result<Resource, EngineError> {
        let (host, kind) = match resource.name.split_once('@') {
            Some((host, kind)) => (host.to_owned(), Some(kind.to_owned())),
            None => (resource.name.clone(), None),
        };
        let kind = resource.text("type").map(str::to_owned).or(kind);
        let Some(kind) = kind else {
            return Err(EngineError::Missing {
                resource: resource.reference(),
                name: "type",
            });
        };
        let short = SHORT.iter().find(|(short, _)| *short == kind);
        let kind = short.map_or(kind.as_str(), |(_, full)| full);
        if !TYPES.contains(&kind) {
            let problem = format!("is `{kind}`, must be one of {}", TYPES.join(", "));
            return Err(EngineError::invalid(&resource, "type", problem));
        }
        let bad = |name: &str| {
            name.is_empty()
                || name.contains(|c: char| c.is_whitespace() || c == ',')
                || name.starts_with(['|', '#', '@'])
        };
        if bad(&host) {
            let problem = format!("is `{host}`, must be one host name, without blanks and commas");
            return Err(EngineError::invalid(&resource, "name", problem));
        }
        let aliases = resource.list("host_aliases").into_iter();
        if let Some(alias) = aliases.map(str::to_owned).find(|alias| bad(alias)) {
            let problem = format!("contains `{alias}`, must be one host name each");
            return Err(EngineError::invalid(&resource, "host_aliases", problem));
        }
        if resource
            .text("key")
            .is_some_and(|key| key.is_empty() || key.contains(char::is_whitespace))
        {
            let problem = "must be the base64 text alone, without kind and comment";
            return Err(EngineError::invalid(&resource, "key", problem));
        }
        resource.name = format!("{host}@{kind}");
        let name = Value::Text(resource.name.clone());
        resource.values.insert("name".to_owned(), name);
        resource.values.insert("type".to_owned(), Value::from(kind));
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
            .map_err(EngineError::during(&all, "listing keys of hosts"))
    }
}

fn file(resource: &Resource) -> ParsedFile {
    ParsedFile::plain(
        &KnownHostsFormat,
        resource.text("target").unwrap_or(KNOWN_HOSTS),
    )
}

/// `host,alias kind key comment`; see sshd(8).
#[derive(Debug)]
pub struct KnownHostsFormat;

impl Format for KnownHostsFormat {
    fn take(&self, lines: &[&str]) -> (usize, Option<Record>) {
        (1, lines.first().and_then(|line| parse(line)))
    }

    fn render(&self, record: &Record) -> Result<String, String> {
        let key = record.values.get("key").and_then(Value::as_text);
        let key = key.ok_or("a key needs `key`")?;
        let (host, kind) = record
            .name
            .split_once('@')
            .ok_or("a key needs a host name and `type`")?;
        let mut names = vec![host];
        names.extend(
            record
                .values
                .get("host_aliases")
                .map(Value::as_list)
                .unwrap_or_default(),
        );
        Ok(format!("{} {kind} {key}\n", names.join(",")))
    }
}

fn parse(line: &str) -> Option<Record> {
    let line = line.trim();
    // Comments, names that nobody can read, and marks of authorities and revoked keys.
    if line.starts_with(['#', '|', '@']) {
        return None;
    }
    let mut fields = line.split_whitespace();
    let mut names = fields.next()?.split(',').map(str::to_owned);
    let (kind, key) = (fields.next()?, fields.next()?);
    let name = format!("{}@{kind}", names.next()?);
    let aliases: Vec<String> = names.collect();
    let mut values = Values::from([("key".to_owned(), Value::from(key))]);
    if !aliases.is_empty() {
        values.insert("host_aliases".to_owned(), Value::List(aliases));
    }
    TYPES.contains(&kind).then_some(Record { name, values })
}
