//! `host`: an entry of `/etc/hosts`.

use std::net::{IpAddr, Ipv6Addr};

use crate::error::{EngineError, Result};
use crate::providers::parsed_file::{
    FileRecord, IncompleteRecord, RecordFormat, RecordResourceType,
};
use crate::resource::{Resource, ResourceValue, name_values};
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
        property("host_aliases", List, "Other names of the host, in order.").split_at_commas(),
        property("comment", Text, "The comment after `#` on the line."),
        property("target", AbsolutePath, "The file.").with_default(HOSTS_FILE),
        provider_parameter(&["parsed"]),
        parameter("name", Text, "The host name."),
    ],
};

pub const HOST_TYPE: RecordResourceType = RecordResourceType {
    schema: &SCHEMA,
    format: &HostsFormat,
    default_path: HOSTS_FILE,
    listing: "listing hosts",
    list_delimiter: Some(" "),
    check: check_host,
};

fn check_host(mut resource: Resource) -> Result<Resource> {
    resource.check_name("a host name", is_host_name)?;
    resource.check_text("ip", "an IPv4 or IPv6 address", is_address)?;
    let expected = "a list of names without blanks, commas and `#`; an empty list removes them";
    resource.check_items("host_aliases", expected, |alias| {
        !alias.is_empty() && !alias.contains(|c: char| c.is_whitespace() || "#,".contains(c))
    })?;
    match resource.get_text("comment") {
        Some(comment) if comment.contains(['\n', '\r']) => {
            Err(EngineError::invalid_value(&resource, "comment", "has several lines, must be one"))
        }
        Some(comment) if comment.trim().is_empty() => {
            resource.set_value("comment", "absent");
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
    fn parse_line(&self, line: &str) -> Option<FileRecord> {
        let (fields, comment) = line.split_once('#').unwrap_or((line, ""));
        let mut fields = fields.split_whitespace();
        let ip = fields.next().filter(|ip| is_address(ip))?;
        let name = fields.next()?.to_owned();
        let aliases: Vec<String> = fields.map(str::to_owned).collect();
        let mut values = name_values([("ip", ip.into())]);
        if !aliases.is_empty() {
            values.insert("host_aliases".to_owned(), ResourceValue::List(aliases));
        }
        if !comment.trim().is_empty() {
            values.insert("comment".to_owned(), comment.trim().into());
        }
        Some(FileRecord { name, values })
    }

    fn render(&self, record: &FileRecord) -> Result<String, IncompleteRecord> {
        let ip = record.require_text("ip", "an entry needs `ip`")?;
        let mut line = format!("{ip}\t{}", record.name);
        if record.values.contains_key("host_aliases") {
            line.extend(["\t", &record.get_list("host_aliases").join(" ")]);
        }
        if let Some(comment) = record.get_text("comment") {
            line.extend(["\t# ", comment]);
        }
        Ok(line + "\n")
    }
}
