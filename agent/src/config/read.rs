//! Reads one TOML file into settings, checking every value against the table of keys. Pure: the text comes in.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Component, Path, PathBuf};

use muster_wire::identity::{Identity, Name};
use serde_json::{Map, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, Fault, Warning};
use super::keys::{self, Kind, Place};
use super::settings::{Origin, Setting, Settings};

/// What reading leaves behind, over all files.
#[derive(Debug, Default)]
pub(super) struct Reading {
    pub(super) settings: Settings,
    pub(super) faults: Vec<Fault>,
    pub(super) warnings: Vec<Warning>,
}

/// A file being read.
struct Source<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Reading {
    /// Adds a file on top of those before it. Wrong values are collected; only broken TOML ends it.
    pub(super) fn add(&mut self, path: &Path, text: &str) -> Result<(), ConfigError> {
        let source = Source { path, text };
        let table = DeTable::parse(text).map_err(|error| ConfigError::Syntax {
            origin: source.origin(error.span().map_or(0, |span| span.start)),
            message: error.message().to_owned(),
        })?;
        self.table(&source, &mut Vec::new(), table.get_ref());
        Ok(())
    }

    fn table(&mut self, source: &Source<'_>, path: &mut Vec<String>, table: &DeTable<'_>) {
        for (key, value) in table {
            path.push(key.get_ref().to_string());
            self.entry(source, path, key.span().start, value);
            path.pop();
        }
    }

    fn entry(
        &mut self,
        source: &Source<'_>,
        path: &mut Vec<String>,
        at: usize,
        value: &Spanned<DeValue<'_>>,
    ) {
        let origin = source.origin(at);
        let key = path.join(".");
        match (keys::place(path), value.get_ref()) {
            (Place::Value(kind), value) => {
                match json(value).and_then(|value| check(kind, value, source.path)) {
                    Ok(value) => self.settings.set(path.clone(), Setting { value, origin }),
                    Err(wrong) => self.faults.push(wrong.at(key, origin)),
                }
            }
            (Place::Free | Place::Unknown, DeValue::Table(table)) if !table.is_empty() => {
                self.table(source, path, table);
            }
            (Place::Free, value) => match json(value) {
                Ok(value) if path.len() > 2 || value.is_object() => {
                    self.settings.set(path.clone(), Setting { value, origin });
                }
                Ok(value) => self
                    .faults
                    .push(Wrong::kind(&value, "a table").at(key, origin)),
                Err(wrong) => self.faults.push(wrong.at(key, origin)),
            },
            (Place::Table, DeValue::Table(table)) => {
                self.name_of_agent(path, &origin);
                self.table(source, path, table);
            }
            (Place::Table, value) => {
                let found = found(&json(value).unwrap_or_default());
                let expected = "a table".to_owned();
                self.faults.push(Fault::Type {
                    key,
                    origin,
                    found,
                    expected,
                });
            }
            (Place::Unknown, _) => {
                let nearest = keys::nearest(&key);
                self.warnings.push(Warning {
                    key,
                    origin,
                    nearest,
                });
            }
        }
    }

    /// The name in `limits.agents.<name>` must be one that an agent can have.
    fn name_of_agent(&mut self, path: &[String], origin: &Origin) {
        if let [limits, agents, name] = path
            && (limits.as_str(), agents.as_str()) == ("limits", "agents")
            && let Err(error) = Name::parse(name)
        {
            let key = path.join(".");
            self.faults.push(Fault::Name {
                key,
                origin: origin.clone(),
                error,
            });
        }
    }
}

impl Source<'_> {
    fn origin(&self, at: usize) -> Origin {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line = 1 + before.bytes().filter(|byte| *byte == b'\n').count();
        Origin::File {
            path: self.path.to_owned(),
            line,
        }
    }
}

/// A fault whose key and place are not known yet.
enum Wrong {
    Kind(&'static str, String),
    Value(String, String),
    Name(muster_wire::identity::NameError),
    Userinfo,
}

impl Wrong {
    fn kind(value: &Value, expected: &str) -> Self {
        Self::Kind(found(value), expected.to_owned())
    }

    fn value(value: &Value, expected: impl Into<String>) -> Self {
        Self::Value(value.to_string(), expected.into())
    }

    fn at(self, key: String, origin: Origin) -> Fault {
        match self {
            Self::Kind(found, expected) => Fault::Type {
                key,
                origin,
                found,
                expected,
            },
            Self::Value(value, expected) => Fault::Value {
                key,
                origin,
                value,
                expected,
            },
            Self::Name(error) => Fault::Name { key, origin, error },
            Self::Userinfo => Fault::Userinfo { key, origin },
        }
    }
}

/// Checks a value against its kind, and brings it into its one form: names folded, paths absolute.
fn check(kind: Kind, value: Value, file: &Path) -> Result<Value, Wrong> {
    match kind {
        Kind::Identity => {
            let name = Identity::parse(text(&value)?).map_err(Wrong::Name)?;
            Ok(Value::String(name.into()))
        }
        Kind::Names => each(&value, |item| {
            let name = Name::parse(text(item)?).map_err(Wrong::Name)?;
            Ok(Value::String(name.into()))
        }),
        Kind::Urls => each(&value, |item| url(item).map(|()| item.clone())),
        Kind::Operator => operator(&value).map(|()| value.clone()),
        Kind::Path | Kind::OptionalPath => match text(&value)? {
            "" if kind == Kind::OptionalPath => Ok(Value::Null),
            "" => Err(Wrong::value(&value, "a path")),
            given => Ok(Value::String(absolute(file, given))),
        },
        Kind::Flag if value.is_boolean() => Ok(value),
        Kind::Flag => Err(Wrong::kind(&value, "true or false")),
        Kind::Number(least, most) => match value.as_i64().map(u64::try_from) {
            Some(Ok(number)) if (least..=most).contains(&number) => Ok(value),
            Some(_) => Err(Wrong::value(
                &value,
                format!("a number from {least} to {most}"),
            )),
            None => Err(Wrong::kind(
                &value,
                &format!("a whole number from {least} to {most}"),
            )),
        },
        Kind::Mode => mode(&value).map(|()| value),
        Kind::OptionalName => match text(&value)? {
            "" => Ok(Value::Null),
            _ => Ok(value),
        },
        Kind::OptionalAddress => match text(&value)? {
            "" => Ok(Value::Null),
            given => address(given)
                .map(|address| Value::String(address.to_string()))
                .ok_or_else(|| {
                    Wrong::value(&value, "an address such as 127.0.0.1:9464, or a port")
                }),
        },
        Kind::OptionalLinkUrl => match text(&value)? {
            "" => Ok(Value::Null),
            given if is_on_link(given) => Ok(value),
            _ => Err(Wrong::value(
                &value,
                "a URL such as http://169.254.169.254, with an address of this machine or its link",
            )),
        },
        Kind::Word(words) => match text(&value)? {
            word if words.contains(&word) => Ok(value),
            _ => Err(Wrong::value(&value, format!("one of {}", words.join(", ")))),
        },
    }
}

/// Where to listen. A port alone is one that only this machine reaches; names are refused, because they may change their meaning.
fn address(given: &str) -> Option<SocketAddr> {
    let port = given.parse().ok();
    port.map(|port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
        .or_else(|| given.parse().ok())
}

/// Whether a URL is that of this machine, or of somebody on the link that it is on: nobody else knows what cloud it is in, and
/// what is asked there in clear does not leave the machine's host.
fn is_on_link(url: &str) -> bool {
    let Some(authority) = url.strip_prefix("http://") else {
        return false;
    };
    let authority = authority.trim_end_matches('/');
    let address = authority
        .parse::<SocketAddr>()
        .map(|address| address.ip())
        .or_else(|_| authority.trim_matches(['[', ']']).parse());
    match address {
        Ok(IpAddr::V4(address)) => address.is_loopback() || address.is_link_local(),
        Ok(IpAddr::V6(address)) => {
            address.is_loopback() || address.is_unicast_link_local() || address.is_unique_local()
        }
        Err(_) => false,
    }
}

/// Three octal digits behind any zeros; the owner must be able to write, and nobody else may.
fn mode(value: &Value) -> Result<(), Wrong> {
    let digits = text(value)?;
    let bits = u32::from_str_radix(digits, 8).ok();
    match bits.filter(|bits| digits.len() <= 5 && bits & !0o644 == 0 && bits & 0o600 == 0o600) {
        Some(_) => Ok(()),
        None => Err(Wrong::value(
            value,
            "permissions in octal such as \"0600\", \"0640\" or \"0644\"",
        )),
    }
}

fn text(value: &Value) -> Result<&str, Wrong> {
    value.as_str().ok_or_else(|| Wrong::kind(value, "a text"))
}

fn each(value: &Value, check: impl Fn(&Value) -> Result<Value, Wrong>) -> Result<Value, Wrong> {
    let items = value
        .as_array()
        .ok_or_else(|| Wrong::kind(value, "a list of texts"))?;
    if items.is_empty() {
        return Err(Wrong::value(value, "a list with at least one entry"));
    }
    items.iter().map(check).collect()
}

/// Whether the broker may be reached so, in clear or not, is for the connection to decide.
fn url(value: &Value) -> Result<(), Wrong> {
    let given = text(value)?;
    match given.split_once("://") {
        Some((_, rest)) if rest.contains('@') => Err(Wrong::Userinfo),
        Some(("tls" | "nats" | "wss" | "ws", host)) if !host.is_empty() => Ok(()),
        _ => Err(Wrong::value(
            value,
            "a URL such as tls://broker.example.net:4222",
        )),
    }
}

/// A public operator key of NATS: `O` and 55 more characters of base 32.
fn operator(value: &Value) -> Result<(), Wrong> {
    let key = text(value)?;
    let base32 = |byte: u8| byte.is_ascii_uppercase() || (b'2'..=b'7').contains(&byte);
    if key.len() == 56 && key.starts_with('O') && key.bytes().all(base32) {
        return Ok(());
    }
    if key.starts_with("SO") {
        // A seed: say nothing of it.
        let expected = "an operator's public key, not its seed";
        return Err(Wrong::Value("a secret".to_owned(), expected.to_owned()));
    }
    Err(Wrong::value(
        value,
        "an operator's public key: `O` and 55 more characters",
    ))
}

/// A path as seen from the file that holds it, without `.` in it.
pub(super) fn absolute(file: &Path, given: &str) -> String {
    let joined = file.parent().unwrap_or(Path::new("/")).join(given);
    let plain: PathBuf = joined
        .components()
        .filter(|part| *part != Component::CurDir)
        .collect();
    plain.to_string_lossy().into_owned()
}

/// What a JSON value is, with an article.
fn found(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a table",
    }
}

/// A TOML value as JSON. Dates become texts; numbers that JSON cannot hold are refused.
fn json(value: &DeValue<'_>) -> Result<Value, Wrong> {
    Ok(match value {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Boolean(flag) => Value::Bool(*flag),
        DeValue::Datetime(instant) => Value::String(instant.to_string()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map(Value::from)
            .map_err(|_| Wrong::Value(number.to_string(), "a number of 64 bits".to_owned()))?,
        DeValue::Float(number) => number
            .as_str()
            .parse::<f64>()
            .ok()
            .and_then(serde_json::Number::from_f64)
            .map(Value::Number)
            .ok_or_else(|| Wrong::Value(number.to_string(), "a finite number".to_owned()))?,
        DeValue::Array(items) => items
            .iter()
            .map(|item| json(item.get_ref()))
            .collect::<Result<_, _>>()?,
        DeValue::Table(table) => {
            let entry = |(key, value): (&Spanned<_>, &Spanned<_>)| {
                let key: &std::borrow::Cow<'_, str> = key.get_ref();
                Ok((key.to_string(), json(value.get_ref())?))
            };
            Value::Object(
                table
                    .iter()
                    .map(entry)
                    .collect::<Result<Map<_, _>, Wrong>>()?,
            )
        }
    })
}
