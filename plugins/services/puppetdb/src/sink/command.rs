//! A command to `PuppetDB`: what it is called, and the path that it is posted to.

use std::fmt::{self, Write as _};

use data_encoding::HEXLOWER;
use muster_base::format_rfc3339;
use muster_sinks::cut_reason;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use sha1::{Digest as _, Sha1};

/// What a command stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CommandKind {
    Facts,
    Catalog,
    Inputs,
    Report,
}

impl CommandKind {
    pub const ALL: [Self; 4] = [Self::Facts, Self::Catalog, Self::Inputs, Self::Report];

    /// The name in metrics, logs and names of files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Facts => "facts",
            Self::Catalog => "catalog",
            Self::Inputs => "inputs",
            Self::Report => "report",
        }
    }

    /// The name of the command.
    pub fn command(self) -> &'static str {
        match self {
            Self::Facts => "replace_facts",
            Self::Catalog => "replace_catalog",
            Self::Inputs => "replace_catalog_inputs",
            Self::Report => "store_report",
        }
    }

    /// The version of its form.
    pub fn version(self) -> u32 {
        match self {
            Self::Facts => 5,
            Self::Catalog => 9,
            Self::Inputs => 1,
            Self::Report => 8,
        }
    }
}

/// A command with its body.
#[derive(Clone, PartialEq, Eq)]
pub struct PuppetdbCommand {
    pub kind: CommandKind,
    /// The node.
    pub certname: String,
    /// As in the body, in milliseconds since the epoch.
    pub producer_timestamp: u64,
    /// JSON.
    pub body: Vec<u8>,
}

impl PuppetdbCommand {
    pub fn new(
        kind: CommandKind,
        certname: &str,
        producer_timestamp: u64,
        form: Map<String, Value>,
    ) -> Self {
        let body = Value::Object(form).to_string().into_bytes();
        Self { kind, certname: certname.to_owned(), producer_timestamp, body }
    }

    /// Where it is posted to. `PuppetDB` compares the checksum with the body, and the time with those of commands that wait before it.
    pub fn path(&self) -> String {
        format!(
            "/pdb/cmd/v1?command={}&version={}&certname={}&producer-timestamp={}&checksum={}",
            self.kind.command(),
            self.kind.version(),
            encode_parameter(&self.certname),
            encode_parameter(&format_rfc3339(self.producer_timestamp)),
            digest(&self.body),
        )
    }
}

/// Facts may be confidential.
impl fmt::Debug for PuppetdbCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PuppetdbCommand")
            .field("kind", &self.kind)
            .field("certname", &self.certname)
            .field("bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// What the file of a refused command has.
#[derive(Serialize)]
pub(super) struct CommandLetter<'a> {
    command: &'static str,
    version: u32,
    certname: &'a str,
    producer_timestamp: String,
    refused_at: String,
    status: Option<u16>,
    reason: &'a str,
    payload: Option<Box<RawValue>>,
}

impl<'a> CommandLetter<'a> {
    /// `status`: `None` for a command that was never sent.
    pub(super) fn new(
        command: &'a PuppetdbCommand,
        status: Option<u16>,
        reason: &'a str,
        now: u64,
    ) -> Self {
        Self {
            command: command.kind.command(),
            version: command.kind.version(),
            certname: &command.certname,
            producer_timestamp: format_rfc3339(command.producer_timestamp),
            refused_at: format_rfc3339(now),
            status,
            reason: cut_reason(reason),
            payload: serde_json::from_slice(&command.body).ok(),
        }
    }
}

/// The checksum that `PuppetDB` expects: SHA-1, in hexadecimal digits.
pub(super) fn digest(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha1::digest(bytes))
}

fn encode_parameter(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::{CommandKind, CommandLetter, PuppetdbCommand};

    #[test]
    fn path_names_node_time_and_checksum() {
        let time = 1_764_201_600_250;
        let command = PuppetdbCommand::new(CommandKind::Facts, "wéb 1&x", time, Map::new());
        assert_eq!(
            command.path(),
            "/pdb/cmd/v1?command=replace_facts&version=5&certname=w%C3%A9b%201%26x&producer-timestamp=2025-11-27T00%3A00%3A00.250Z\
             &checksum=bf21a9e8fbc5a3846fb05b4fa0859e0917b2202f",
        );
    }

    #[test]
    fn letter_has_body_and_reason() {
        let form = Map::from_iter([("certname".to_owned(), Value::from("web1"))]);
        let command = PuppetdbCommand::new(CommandKind::Facts, "web1", 5, form);
        let letter =
            serde_json::to_value(CommandLetter::new(&command, Some(400), "no", 5)).unwrap();
        let expected = json!({
            "command": "replace_facts", "version": 5, "certname": "web1", "status": 400, "reason": "no",
            "producer_timestamp": "1970-01-01T00:00:00.005Z", "refused_at": "1970-01-01T00:00:00.005Z",
            "payload": {"certname": "web1"},
        });
        assert_eq!(letter, expected);
    }
}
