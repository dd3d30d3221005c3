//! Reads one TOML file into settings and checks every value against the table of keys. Pure: the caller passes the text.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Component, Path, PathBuf};

use muster_wire::identity::{Identity, SubjectName};
use serde_json::{Map, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, ConfigFault, ConfigWarning};
use super::keys::{self, ConfigValueKind, KeyMatch};
use super::settings::{MergedSettings, SettingEntry, SettingOrigin};

/// The accumulated result of reading all files.
#[derive(Debug, Default)]
pub(super) struct ConfigReader {
    pub(super) settings: MergedSettings,
    pub(super) faults: Vec<ConfigFault>,
    pub(super) warnings: Vec<ConfigWarning>,
}

struct ConfigSource<'a> {
    path: &'a Path,
    text: &'a str,
    /// The origin of all values, unless it is their line.
    origin: Option<&'a SettingOrigin>,
}

impl ConfigReader {
    /// Adds a file over the earlier ones. Invalid values are collected; only a TOML syntax error stops the read.
    pub(super) fn add_file(&mut self, path: &Path, text: &str) -> Result<(), ConfigError> {
        self.add_source(path, text, None)
    }

    /// Adds a text as if it were this file; its values have the given origin.
    pub(super) fn add_source(
        &mut self,
        path: &Path,
        text: &str,
        origin: Option<&SettingOrigin>,
    ) -> Result<(), ConfigError> {
        let source = ConfigSource { path, text, origin };
        let table = DeTable::parse(text).map_err(|error| ConfigError::Syntax {
            origin: source.origin_at(error.span().map_or(0, |span| span.start)),
            message: error.message().to_owned(),
        })?;
        self.read_table(&source, &mut Vec::new(), table.get_ref());
        Ok(())
    }

    fn read_table(
        &mut self,
        source: &ConfigSource<'_>,
        path: &mut Vec<String>,
        table: &DeTable<'_>,
    ) {
        for (key, value) in table {
            path.push(key.get_ref().to_string());
            self.read_entry(source, path, key.span().start, value);
            path.pop();
        }
    }

    fn read_entry(
        &mut self,
        source: &ConfigSource<'_>,
        path: &mut Vec<String>,
        offset: usize,
        value: &Spanned<DeValue<'_>>,
    ) {
        let origin = source.origin_at(offset);
        let key = path.join(".");
        match (keys::match_key(path), value.get_ref()) {
            (KeyMatch::Value(kind), value) => {
                match to_json(value).and_then(|value| check_value(kind, value, source.path)) {
                    Ok(value) => self.settings.set(path.clone(), SettingEntry { value, origin }),
                    Err(fault) => self.faults.push(fault.at_key(key, origin)),
                }
            }
            (KeyMatch::Free | KeyMatch::Unknown, DeValue::Table(table)) if !table.is_empty() => {
                self.read_table(source, path, table);
            }
            (KeyMatch::Free, value) => match to_json(value) {
                Ok(value) if path.len() > 2 || value.is_object() => {
                    let value = if keys::is_plugin_path(path) {
                        resolve_paths(source.path, value)
                    } else {
                        value
                    };
                    self.settings.set(path.clone(), SettingEntry { value, origin });
                }
                Ok(value) => {
                    self.faults.push(ValueFault::wrong_kind(&value, "a table").at_key(key, origin));
                }
                Err(fault) => self.faults.push(fault.at_key(key, origin)),
            },
            (KeyMatch::Table, DeValue::Table(table)) => {
                self.check_agent_name(path, &origin);
                self.read_table(source, path, table);
            }
            (KeyMatch::Table, value) => {
                let found = describe_kind(&to_json(value).unwrap_or_default());
                let expected = "a table".to_owned();
                self.faults.push(ConfigFault::Type { key, origin, found, expected });
            }
            (KeyMatch::Unknown, _) => {
                let nearest = keys::nearest_key(&key);
                self.warnings.push(ConfigWarning { key, origin, nearest });
            }
        }
    }

    /// The name in `limits.agents.<name>` must be a valid agent name.
    fn check_agent_name(&mut self, path: &[String], origin: &SettingOrigin) {
        if let [limits, agents, name] = path
            && (limits.as_str(), agents.as_str()) == ("limits", "agents")
            && let Err(error) = SubjectName::parse(name)
        {
            let key = path.join(".");
            self.faults.push(ConfigFault::Name { key, origin: origin.clone(), error });
        }
    }
}

impl ConfigSource<'_> {
    fn origin_at(&self, offset: usize) -> SettingOrigin {
        if let Some(origin) = self.origin {
            return origin.clone();
        }
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line = 1 + before.bytes().filter(|byte| *byte == b'\n').count();
        SettingOrigin::File { path: self.path.to_owned(), line }
    }
}

/// A fault without its key and origin.
enum ValueFault {
    Kind(&'static str, String),
    Value(String, String),
    Name(muster_wire::identity::NameError),
    Userinfo,
}

impl ValueFault {
    fn wrong_kind(value: &Value, expected: &str) -> Self {
        Self::Kind(describe_kind(value), expected.to_owned())
    }

    fn wrong_value(value: &Value, expected: impl Into<String>) -> Self {
        Self::Value(value.to_string(), expected.into())
    }

    fn at_key(self, key: String, origin: SettingOrigin) -> ConfigFault {
        match self {
            Self::Kind(found, expected) => ConfigFault::Type { key, origin, found, expected },
            Self::Value(value, expected) => ConfigFault::Value { key, origin, value, expected },
            Self::Name(error) => ConfigFault::Name { key, origin, error },
            Self::Userinfo => ConfigFault::Userinfo { key, origin },
        }
    }
}

/// Checks a value against its kind and normalises it: names in lower case, paths absolute.
fn check_value(kind: ConfigValueKind, value: Value, file: &Path) -> Result<Value, ValueFault> {
    match kind {
        ConfigValueKind::Identity => {
            let name = Identity::parse(expect_text(&value)?).map_err(ValueFault::Name)?;
            Ok(Value::String(name.into()))
        }
        ConfigValueKind::Names => check_each(&value, |item| {
            let name = SubjectName::parse(expect_text(item)?).map_err(ValueFault::Name)?;
            Ok(Value::String(name.into()))
        }),
        ConfigValueKind::Urls => check_each(&value, |item| check_url(item).map(|()| item.clone())),
        ConfigValueKind::Operator => check_operator(&value).map(|()| value.clone()),
        ConfigValueKind::Path | ConfigValueKind::OptionalPath => match expect_text(&value)? {
            "" if kind == ConfigValueKind::OptionalPath => Ok(Value::Null),
            "" => Err(ValueFault::wrong_value(&value, "a path")),
            given => Ok(Value::String(absolute_path(file, given))),
        },
        ConfigValueKind::Flag if value.is_boolean() => Ok(value),
        ConfigValueKind::Flag => Err(ValueFault::wrong_kind(&value, "true or false")),
        ConfigValueKind::Number(min, max) => match value.as_i64().map(u64::try_from) {
            Some(Ok(number)) if (min..=max).contains(&number) => Ok(value),
            Some(_) => {
                Err(ValueFault::wrong_value(&value, format!("a number from {min} to {max}")))
            }
            None => {
                Err(ValueFault::wrong_kind(&value, &format!("a whole number from {min} to {max}")))
            }
        },
        ConfigValueKind::FactPatterns => match value.as_array() {
            Some(patterns) if patterns.iter().all(is_fact_pattern) => Ok(value),
            _ => Err(ValueFault::wrong_value(
                &value,
                "a list of fact names such as [\"uptime\", \"memory.*.available\"]",
            )),
        },
        ConfigValueKind::Mode => check_mode(&value).map(|()| value),
        ConfigValueKind::OptionalName => match expect_text(&value)? {
            "" => Ok(Value::Null),
            _ => Ok(value),
        },
        ConfigValueKind::OptionalAddress => match expect_text(&value)? {
            "" => Ok(Value::Null),
            given => parse_address(given)
                .map(|address| Value::String(address.to_string()))
                .ok_or_else(|| {
                    ValueFault::wrong_value(&value, "an address such as 127.0.0.1:9464, or a port")
                }),
        },
        ConfigValueKind::OptionalLinkUrl => match expect_text(&value)? {
            "" => Ok(Value::Null),
            given if is_on_link(given) => Ok(value),
            _ => Err(ValueFault::wrong_value(
                &value,
                "a URL such as http://169.254.169.254, with a loopback or link-local address",
            )),
        },
        ConfigValueKind::Choice(choices) => match expect_text(&value)? {
            choice if choices.contains(&choice) => Ok(value),
            _ => Err(ValueFault::wrong_value(&value, format!("one of {}", choices.join(", ")))),
        },
    }
}

/// Whether a value is a dotted path with non-empty segments.
fn is_fact_pattern(value: &Value) -> bool {
    let is_pattern = |text: &str| text.split('.').all(|segment| !segment.is_empty());
    value.as_str().is_some_and(is_pattern)
}

/// A port alone means loopback; host names are rejected, because their address may change.
fn parse_address(given: &str) -> Option<SocketAddr> {
    let port = given.parse().ok();
    port.map(|port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
        .or_else(|| given.parse().ok())
}

/// Whether the host of a URL is a loopback, link-local or IPv6 unique local address. Only such services describe this machine's cloud, and
/// plaintext requests to them do not leave its host.
fn is_on_link(url: &str) -> bool {
    let Some(authority) = url.strip_prefix("http://") else { return false };
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

/// Three octal digits after any zeros; the owner must have write access, and others must not.
fn check_mode(value: &Value) -> Result<(), ValueFault> {
    let digits = expect_text(value)?;
    let bits = u32::from_str_radix(digits, 8).ok();
    match bits.filter(|bits| digits.len() <= 5 && bits & !0o644 == 0 && bits & 0o600 == 0o600) {
        Some(_) => Ok(()),
        None => Err(ValueFault::wrong_value(
            value,
            "permissions in octal such as \"0600\", \"0640\" or \"0644\"",
        )),
    }
}

fn expect_text(value: &Value) -> Result<&str, ValueFault> {
    value.as_str().ok_or_else(|| ValueFault::wrong_kind(value, "a string"))
}

fn check_each(
    value: &Value,
    check: impl Fn(&Value) -> Result<Value, ValueFault>,
) -> Result<Value, ValueFault> {
    let items =
        value.as_array().ok_or_else(|| ValueFault::wrong_kind(value, "a list of strings"))?;
    if items.is_empty() {
        return Err(ValueFault::wrong_value(value, "a list with at least one entry"));
    }
    items.iter().map(check).collect()
}

/// Checks the syntax of a URL only. The connection decides whether plaintext is allowed.
fn check_url(value: &Value) -> Result<(), ValueFault> {
    let given = expect_text(value)?;
    match given.split_once("://") {
        Some((_, rest)) if rest.contains('@') => Err(ValueFault::Userinfo),
        Some(("tls" | "nats" | "wss" | "ws", host)) if !host.is_empty() => Ok(()),
        _ => Err(ValueFault::wrong_value(value, "a URL such as tls://broker.example.net:4222")),
    }
}

/// A public operator key of NATS: `O` and 55 more base32 characters.
fn check_operator(value: &Value) -> Result<(), ValueFault> {
    let key = expect_text(value)?;
    let base32 = |byte: u8| byte.is_ascii_uppercase() || (b'2'..=b'7').contains(&byte);
    if key.len() == 56 && key.starts_with('O') && key.bytes().all(base32) {
        return Ok(());
    }
    if key.starts_with("SO") {
        // The value is a seed: do not repeat it in the message.
        let expected = "an operator's public key, not its seed";
        return Err(ValueFault::Value("a secret".to_owned(), expected.to_owned()));
    }
    Err(ValueFault::wrong_value(value, "an operator's public key: `O` and 55 more characters"))
}

/// Paths resolved against the file that contains them. Other values are returned unchanged, as their reader reports them.
fn resolve_paths(file: &Path, value: Value) -> Value {
    match value {
        Value::String(given) if !given.is_empty() => absolute_path(file, &given).into(),
        Value::Array(items) => {
            items.into_iter().map(|item| resolve_paths(file, item)).collect::<Vec<_>>().into()
        }
        other => other,
    }
}

/// A path resolved against the file that contains it, without `.` components.
fn absolute_path(file: &Path, given: &str) -> String {
    let joined = file.parent().unwrap_or(Path::new("/")).join(given);
    let plain: PathBuf = joined.components().filter(|part| *part != Component::CurDir).collect();
    plain.to_string_lossy().into_owned()
}

/// The type of a JSON value, with an article.
fn describe_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a table",
    }
}

/// Dates become strings; numbers that JSON cannot represent are rejected.
fn to_json(value: &DeValue<'_>) -> Result<Value, ValueFault> {
    Ok(match value {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Boolean(flag) => Value::Bool(*flag),
        DeValue::Datetime(instant) => Value::String(instant.to_string()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map(Value::from)
            .map_err(|_| ValueFault::Value(number.to_string(), "a 64-bit integer".to_owned()))?,
        DeValue::Float(number) => number
            .as_str()
            .parse::<f64>()
            .ok()
            .and_then(serde_json::Number::from_f64)
            .map(Value::Number)
            .ok_or_else(|| ValueFault::Value(number.to_string(), "a finite number".to_owned()))?,
        DeValue::Array(items) => {
            items.iter().map(|item| to_json(item.get_ref())).collect::<Result<_, _>>()?
        }
        DeValue::Table(table) => {
            let entry = |(key, value): (&Spanned<_>, &Spanned<_>)| {
                let key: &std::borrow::Cow<'_, str> = key.get_ref();
                Ok((key.to_string(), to_json(value.get_ref())?))
            };
            Value::Object(table.iter().map(entry).collect::<Result<Map<_, _>, ValueFault>>()?)
        }
    })
}
