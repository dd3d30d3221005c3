//! `host`: an entry of `/etc/hosts`.

use std::net::{IpAddr, Ipv6Addr};

use crate::error::{EngineError, Result};
use crate::providers::parsed_file::{
    FileRecord, IncompleteRecord, RecordFormat, RecordResourceType,
};
use crate::resource::{Resource, ResourceValue, ResourceValues};
use crate::schema::AttributeKind::{AbsolutePath, List, Text};
use crate::schema::{TypeSchema, parameter, presence_property, property, provider_parameter};

const HOSTS_FILE: &str = "/etc/hosts";

static SCHEMA: TypeSchema = TypeSchema {
    type_name: "host",
    doc: "An entry of the hosts file: an address and its names.",
    namevar: "name",
    attributes: &[
        presence_property("Whether the entry exists."),
        property("ip", Text, "The IPv4 or IPv6 address."),
        property("host_aliases", List, "Other names of the host, in order."),
        property("comment", Text, "The comment after `#` on the line."),
        property("target", AbsolutePath, "The file.").with_default(HOSTS_FILE),
        provider_parameter(&["parsed"]),
        parameter("name", Text, "The host name."),
    ],
};

/// The resource type.
pub const HOST_TYPE: RecordResourceType = RecordResourceType {
    schema: &SCHEMA,
    format: &HostsFormat,
    default_path: HOSTS_FILE,
    listing: "listing hosts",
    list_delimiter: Some(" "),
    check: check_host,
};

fn check_host(mut resource: Resource) -> Result<Resource> {
    if !is_host_name(&resource.name) {
        let problem = format!("is `{}`, must be a host name", resource.name);
        return Err(EngineError::invalid_value(&resource, "name", problem));
    }
    if let Some(ip) = resource.get_text("ip").filter(|ip| !is_address(ip)) {
        let problem = format!("is `{ip}`, must be an IPv4 or IPv6 address");
        return Err(EngineError::invalid_value(&resource, "ip", problem));
    }
    let is_invalid =
        |alias: &&str| alias.is_empty() || alias.contains(|c: char| c.is_whitespace() || c == '#');
    if let Some(alias) = resource.get_list("host_aliases").into_iter().find(is_invalid) {
        let problem = format!(
            "contains `{alias}`, must be names without blanks and `#`; an empty list removes them"
        );
        return Err(EngineError::invalid_value(&resource, "host_aliases", problem));
    }
    match resource.get_text("comment") {
        Some(comment) if comment.contains(['\n', '\r']) => {
            Err(EngineError::invalid_value(&resource, "comment", "has several lines, must be one"))
        }
        Some(comment) if comment.trim().is_empty() => {
            resource.values.insert("comment".to_owned(), ResourceValue::from("absent"));
            Ok(resource)
        }
        _ => Ok(resource),
    }
}

fn is_host_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let has_valid_chars =
            label.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
        has_valid_chars && !label.is_empty() && !label.starts_with('-') && !label.ends_with('-')
    };
    name.split('.').all(is_label)
}

/// Whether the text is an IP address; IPv6 may have a zone (`fe80::1%eth0`).
fn is_address(text: &str) -> bool {
    let parse_zoned = || {
        let (address, zone) = text.split_once('%')?;
        let is_valid_zone = !zone.is_empty()
            && zone.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
        Some(is_valid_zone && address.parse::<Ipv6Addr>().is_ok())
    };
    text.parse::<IpAddr>().is_ok() || parse_zoned() == Some(true)
}

/// `ip <blank> name <blank> aliases # comment`.
#[derive(Debug)]
pub struct HostsFormat;

impl RecordFormat for HostsFormat {
    fn parse_record(&self, lines: &[&str]) -> (usize, Option<FileRecord>) {
        (1, lines.first().and_then(|line| parse_line(line)))
    }

    fn render(&self, record: &FileRecord) -> Result<String, IncompleteRecord> {
        let ip = record
            .values
            .get("ip")
            .and_then(ResourceValue::as_text)
            .ok_or(IncompleteRecord("an entry needs `ip`"))?;
        let mut line = format!("{ip}\t{}", record.name);
        if let Some(aliases) = record.values.get("host_aliases") {
            line.push('\t');
            line.push_str(&aliases.as_list().join(" "));
        }
        if let Some(comment) = record.values.get("comment").and_then(ResourceValue::as_text) {
            line.push_str("\t# ");
            line.push_str(comment);
        }
        line.push('\n');
        Ok(line)
    }
}

fn parse_line(line: &str) -> Option<FileRecord> {
    let (fields, comment) = line
        .split_once('#')
        .map_or((line, None), |(fields, comment)| (fields, Some(comment.trim())));
    let mut fields = fields.split_whitespace();
    let ip = fields.next().filter(|ip| is_address(ip))?;
    let mut record = FileRecord { name: fields.next()?.to_owned(), values: ResourceValues::new() };
    let aliases: Vec<String> = fields.map(str::to_owned).collect();
    record.values.insert("ip".to_owned(), ResourceValue::from(ip));
    if !aliases.is_empty() {
        record.values.insert("host_aliases".to_owned(), ResourceValue::List(aliases));
    }
    if let Some(comment) = comment.filter(|comment| !comment.is_empty()) {
        record.values.insert("comment".to_owned(), ResourceValue::from(comment));
    }
    Some(record)
}
