//! `sshkey`: the key of another host in a known-hosts file. Hashed names and marked lines are left unchanged.

use super::ssh_authorized_key::full_key_type;
use crate::error::{EngineError, Result};
use crate::providers::parsed_file::{
    FileRecord, IncompleteRecord, RecordFormat, RecordResourceType,
};
use crate::resource::{Resource, ResourceValue, name_values};
use crate::schema::AttributeKind::{AbsolutePath, List, Text};
use crate::schema::{TypeSchema, parameter, presence_property, property, provider_parameter};

const KNOWN_HOSTS_FILE: &str = "/etc/ssh/ssh_known_hosts";

static SCHEMA: TypeSchema = TypeSchema {
    type_name: "sshkey",
    doc: "The SSH public key of a host, identified by host name and key type: `db.example.com@ssh-ed25519`.",
    namevar: "name",
    attributes: &[
        presence_property("Whether the key exists."),
        property("key", Text, "The key in base64."),
        property("host_aliases", List, "Other names of the host, in order.").split_at_commas(),
        property("target", AbsolutePath, "The file.").with_default(KNOWN_HOSTS_FILE),
        provider_parameter(&["parsed"]),
        parameter("name", Text, "The host name."),
        parameter("type", Text, "The key type; defaults to the part of the title after `@`."),
    ],
};

const KEY_TYPES: [&str; 8] = [
    "ssh-dss",
    "ssh-ed25519",
    "ssh-rsa",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ecdsa-sha2-nistp256@openssh.com",
    "sk-ssh-ed25519@openssh.com",
];

pub const SSHKEY_TYPE: RecordResourceType = RecordResourceType {
    schema: &SCHEMA,
    format: &KnownHostsFormat,
    default_path: KNOWN_HOSTS_FILE,
    listing: "listing keys of hosts",
    list_delimiter: None,
    check: check_sshkey,
};

/// Combines name and key type to the name that identifies the line.
fn check_sshkey(mut resource: Resource) -> Result<Resource> {
    let (host, kind) = match resource.name.split_once('@') {
        Some((host, kind)) => (host, Some(kind)),
        None => (resource.name.as_str(), None),
    };
    let Some(kind) = resource.get_text("type").or(kind).map(full_key_type) else {
        return Err(EngineError::Missing { resource: resource.reference(), name: "type" });
    };
    if !KEY_TYPES.contains(&kind) {
        let problem = format!("is `{kind}`, must be one of {}", KEY_TYPES.join(", "));
        return Err(EngineError::invalid_value(&resource, "type", problem));
    }
    let is_host = |name: &str| {
        !name.is_empty()
            && !name.contains(|c: char| c.is_whitespace() || c == ',')
            && !name.starts_with(['|', '#', '@'])
    };
    if !is_host(host) {
        let problem = format!("is `{host}`, must be one host name, without blanks or commas");
        return Err(EngineError::invalid_value(&resource, "name", problem));
    }
    resource.check_items("host_aliases", "a list of host names", is_host)?;
    let is_invalid = |key: &str| key.is_empty() || key.contains(char::is_whitespace);
    if resource.get_text("key").is_some_and(is_invalid) {
        let problem = "must be only the base64 text, without key type and comment";
        return Err(EngineError::invalid_value(&resource, "key", problem));
    }
    let (name, kind) = (format!("{host}@{kind}"), kind.to_owned());
    resource.name.clone_from(&name);
    resource.set_value("name", name);
    resource.set_value("type", kind);
    Ok(resource)
}

/// `host,alias kind key comment`; see sshd(8).
#[derive(Debug)]
pub struct KnownHostsFormat;

impl RecordFormat for KnownHostsFormat {
    fn parse_line(&self, line: &str) -> Option<FileRecord> {
        let line = line.trim();
        // Comments, hashed names, and markers of certificate authorities and revoked keys.
        if line.starts_with(['#', '|', '@']) {
            return None;
        }
        let mut fields = line.split_whitespace();
        let mut names = fields.next()?.split(',').map(str::to_owned);
        let (kind, key) = (fields.next()?, fields.next()?);
        let name = format!("{}@{kind}", names.next()?);
        let aliases: Vec<String> = names.collect();
        let mut values = name_values([("key", key.into())]);
        if !aliases.is_empty() {
            values.insert("host_aliases".to_owned(), ResourceValue::List(aliases));
        }
        KEY_TYPES.contains(&kind).then_some(FileRecord { name, values })
    }

    fn render(&self, record: &FileRecord) -> Result<String, IncompleteRecord> {
        let key = record.require_text("key", "a key needs `key`")?;
        let problem = IncompleteRecord("a key needs a host name and `type`");
        let (host, kind) = record.name.split_once('@').ok_or(problem)?;
        let mut names = vec![host];
        names.extend(record.get_list("host_aliases"));
        Ok(format!("{} {kind} {key}\n", names.join(",")))
    }
}
