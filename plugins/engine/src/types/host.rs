//! `host`: an entry of `/etc/hosts`.

use std::net::{IpAddr, Ipv6Addr};

use crate::error::EngineError;
use crate::plan::{Change, Plan, State};
use crate::providers::parsed_file::{Format, ParsedFile, Record};
use crate::resource::{Resource, Value, Values};
use crate::resource_type::{Cx, ResourceType, Siblings, Wanted};
use crate::schema::{Attribute, Kind, Schema};

const HOSTS: &str = "/etc/hosts";

static SCHEMA: Schema = Schema {
    type_name: "host",
    doc: "An entry of the hosts file: an address and the names for it.",
    namevar: "name",
    attributes: &[
        Attribute::property(
            "ensure",
            Kind::Word(&["present", "absent"]),
            "Whether the entry is there.",
        )
        .or("present"),
        Attribute::property("ip", Kind::Text, "The address, IPv4 or IPv6."),
        Attribute::property("host_aliases", Kind::List, "Other names, in order."),
        Attribute::property("comment", Kind::Text, "What stands behind `#` on the line."),
        Attribute::property("target", Kind::Path, "The file.").or(HOSTS),
        Attribute::parameter(
            "provider",
            Kind::Word(&["parsed"]),
            "How it is done; there is one way.",
        )
        .or("parsed"),
        Attribute::parameter("name", Kind::Text, "The host name."),
    ],
};

/// The type.
#[derive(Debug)]
pub struct Host;

impl ResourceType for Host {
    fn schema(&self) -> &'static Schema {
        &SCHEMA
    }

    fn check(&self, mut resource: Resource) -> Result<Resource, EngineError> {
        if !is_host_name(&resource.name) {
            let problem = format!("is `{}`, must be a host name", resource.name);
            return Err(EngineError::invalid(&resource, "name", problem));
        }
        if let Some(ip) = resource.text("ip").filter(|ip| !is_address(ip)) {
            let problem = format!("is `{ip}`, must be an IPv4 or IPv6 address");
            return Err(EngineError::invalid(&resource, "ip", problem));
        }
        let bad = |alias: &&str| {
            alias.is_empty() || alias.contains(|c: char| c.is_whitespace() || c == '#')
        };
        if let Some(alias) = resource.list("host_aliases").into_iter().find(bad) {
            let problem = format!(
                "contains `{alias}`, must be names without blanks and `#`; an empty list removes them"
            );
            return Err(EngineError::invalid(&resource, "host_aliases", problem));
        }
        match resource.text("comment") {
            Some(comment) if comment.contains(['\n', '\r']) => Err(EngineError::invalid(
                &resource,
                "comment",
                "has several lines, must be one",
            )),
            Some(comment) if comment.trim().is_empty() => {
                resource
                    .values
                    .insert("comment".to_owned(), Value::from("absent"));
                Ok(resource)
            }
            _ => Ok(resource),
        }
    }

    fn read(&self, cx: &Cx<'_>, resource: &Resource) -> Result<State, EngineError> {
        file(resource).read(cx, resource)
    }

    /// Aliases are told as they stand on the line, with blanks between them.
    fn plan(&self, resource: &Resource, state: &State) -> Plan {
        let mut plan = Plan::compare(&SCHEMA, resource, state);
        for change in &mut plan.changes {
            if change.property == "host_aliases" {
                *change = change.clone().joined(" ");
            }
        }
        plan
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
            .map_err(EngineError::during(&all, "listing hosts"))
    }
}

fn file(resource: &Resource) -> ParsedFile {
    ParsedFile::plain(&HostsFormat, resource.text("target").unwrap_or(HOSTS))
}

fn is_host_name(name: &str) -> bool {
    let part = |part: &str| {
        let inner = part
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
        inner && !part.is_empty() && !part.starts_with('-') && !part.ends_with('-')
    };
    name.split('.').all(part)
}

/// An address; IPv6 with a zone too (`fe80::1%eth0`).
fn is_address(text: &str) -> bool {
    let zoned = || {
        let (address, zone) = text.split_once('%')?;
        let plain = !zone.is_empty()
            && zone
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
        Some(plain && address.parse::<Ipv6Addr>().is_ok())
    };
    text.parse::<IpAddr>().is_ok() || zoned() == Some(true)
}

/// `ip <blank> name <blank> aliases # comment`.
#[derive(Debug)]
pub struct HostsFormat;

impl Format for HostsFormat {
    fn take(&self, lines: &[&str]) -> (usize, Option<Record>) {
        (1, lines.first().and_then(|line| parse(line)))
    }

    fn render(&self, record: &Record) -> Result<String, String> {
        let ip = record
            .values
            .get("ip")
            .and_then(Value::as_text)
            .ok_or("an entry needs `ip`")?;
        let mut line = format!("{ip}\t{}", record.name);
        if let Some(aliases) = record.values.get("host_aliases") {
            line.push('\t');
            line.push_str(&aliases.as_list().join(" "));
        }
        if let Some(comment) = record.values.get("comment").and_then(Value::as_text) {
            line.push_str("\t# ");
            line.push_str(comment);
        }
        line.push('\n');
        Ok(line)
    }
}

fn parse(line: &str) -> Option<Record> {
    let (fields, comment) = line
        .split_once('#')
        .map_or((line, None), |(fields, comment)| {
            (fields, Some(comment.trim()))
        });
    let mut fields = fields.split_whitespace();
    let ip = fields.next().filter(|ip| is_address(ip))?;
    let mut record = Record {
        name: fields.next()?.to_owned(),
        values: Values::new(),
    };
    let aliases: Vec<String> = fields.map(str::to_owned).collect();
    record.values.insert("ip".to_owned(), Value::from(ip));
    if !aliases.is_empty() {
        record
            .values
            .insert("host_aliases".to_owned(), Value::List(aliases));
    }
    if let Some(comment) = comment.filter(|comment| !comment.is_empty()) {
        record
            .values
            .insert("comment".to_owned(), Value::from(comment));
    }
    Some(record)
}
