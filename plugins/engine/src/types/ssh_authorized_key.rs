//! `ssh_authorized_key`: a line of `~/.ssh/authorized_keys`, known by its comment.

use std::path::{Path, PathBuf};

use muster_system::{Attributes, FileKind, SystemError};

use crate::error::EngineError;
use crate::plan::{Change, Plan, State};
use crate::providers::names::{self, User};
use crate::providers::parsed_file::{Format, ParsedFile, Record};
use crate::resource::{Resource, Value, Values};
use crate::resource_type::{Cx, ResourceType, Siblings, Wanted};
use crate::schema::{Attribute, Kind, Schema};

static SCHEMA: Schema = Schema {
    type_name: "ssh_authorized_key",
    doc: "A public key that opens an account.",
    namevar: "name",
    attributes: &[
        Attribute::property(
            "ensure",
            Kind::Word(&["present", "absent"]),
            "Whether the key is there.",
        )
        .or("present"),
        Attribute::property(
            "type",
            Kind::Text,
            "The kind of key: `ssh-ed25519`, `ssh-rsa`, ...",
        ),
        Attribute::property("key", Kind::Text, "The key itself, in base64."),
        Attribute::property("user", Kind::Text, "The account that it opens."),
        Attribute::property(
            "target",
            Kind::Path,
            "The file; `.ssh/authorized_keys` of the user when not given.",
        ),
        Attribute::property(
            "options",
            Kind::List,
            "Options before the key, each `word` or `word=\"value\"`.",
        ),
        Attribute::parameter(
            "drop_privileges",
            Kind::Bool,
            "Accepted for Puppet's sake; links in the user's directory are refused instead.",
        ),
        Attribute::parameter(
            "provider",
            Kind::Word(&["parsed"]),
            "How it is done; there is one way.",
        )
        .or("parsed"),
        Attribute::parameter("name", Kind::Text, "The comment behind the key."),
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
const TYPES: [&str; 14] = [
    "ssh-dss",
    "ssh-rsa",
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ecdsa-sha2-nistp256@openssh.com",
    "sk-ssh-ed25519@openssh.com",
    "ssh-rsa-cert-v01@openssh.com",
    "ssh-ed25519-cert-v01@openssh.com",
    "ssh-dss-cert-v01@openssh.com",
    "ecdsa-sha2-nistp256-cert-v01@openssh.com",
    "ecdsa-sha2-nistp384-cert-v01@openssh.com",
    "ecdsa-sha2-nistp521-cert-v01@openssh.com",
];

/// The type.
#[derive(Debug)]
pub struct SshAuthorizedKey;

impl ResourceType for SshAuthorizedKey {
    fn schema(&self) -> &'static Schema {
        &SCHEMA
    }

    fn check(&self, mut resource: Resource) -> Result<Resource, EngineError> {
        if resource.get("user").is_none() && resource.get("target").is_none() {
            return Err(EngineError::Missing {
                resource: resource.reference(),
                name: "user` or `target",
            });
        }
        if resource.name.contains(['\n', '\r']) {
            return Err(EngineError::invalid(
                &resource,
                "name",
                "has several lines, must be one",
            ));
        }
        if let Some(kind) = resource.text("type") {
            let full = SHORT
                .iter()
                .find(|(short, _)| *short == kind)
                .map_or(kind, |(_, full)| full)
                .to_owned();
            if !TYPES.contains(&full.as_str()) {
                let problem = format!("is `{kind}`, must be one of {}", TYPES.join(", "));
                return Err(EngineError::invalid(&resource, "type", problem));
            }
            resource.values.insert("type".to_owned(), Value::Text(full));
        }
        let base64 = |c: char| c.is_ascii_alphanumeric() || "+/=".contains(c);
        if resource
            .text("key")
            .is_some_and(|key| key.is_empty() || !key.chars().all(base64))
        {
            let problem = "must be the base64 text alone, without kind and comment";
            return Err(EngineError::invalid(&resource, "key", problem));
        }
        let bad =
            |option: &&str| *option != "absent" && options(option).is_none_or(|all| all.len() != 1);
        if let Some(option) = resource.list("options").into_iter().find(bad) {
            let problem = format!("contains `{option}`, must be `word` or `word=\"value\"` each");
            return Err(EngineError::invalid(&resource, "options", problem));
        }
        Ok(resource)
    }

    fn read(&self, cx: &Cx<'_>, resource: &Resource) -> Result<State, EngineError> {
        let Some(file) = file(cx, resource)? else {
            return Ok(State::absent());
        };
        let mut state = file.read(cx, resource)?;
        if let (false, Some(user)) = (state.is_absent(), resource.get("user")) {
            state.values.insert("user".to_owned(), user.clone());
        }
        Ok(state)
    }

    fn apply(&self, cx: &Cx<'_>, plan: &Plan, _: &Change) -> Result<(), EngineError> {
        let resource = &plan.resource;
        let file = file(cx, resource)?.ok_or_else(|| {
            let user = resource.text("user").unwrap_or_default();
            EngineError::failed(
                resource,
                format!("user `{user}` does not exist; create it first, or give `target`"),
            )
        })?;
        guard(cx, resource, &file.path)?;
        file.apply(cx, &SCHEMA, plan)
    }

    /// The user whose account it opens, and the file itself where the catalog has that.
    fn autorequires(&self, resource: &Resource, _: &dyn Siblings) -> Vec<Wanted> {
        let user = resource.text("user").map(|user| ("user", user.to_owned()));
        let target = resource
            .text("target")
            .map(|target| ("file", target.to_owned()));
        user.into_iter().chain(target).collect()
    }

    fn find(&self, cx: &Cx<'_>, title: &str) -> Result<State, EngineError> {
        let all = self.instances(cx)?;
        let found = all.into_iter().find(|(name, _)| name == title);
        Ok(found.map_or_else(State::absent, |(_, values)| State { values }))
    }

    fn instances(&self, cx: &Cx<'_>) -> Result<Vec<(String, Values)>, EngineError> {
        let all = Resource::named(&SCHEMA, "*")?;
        let failing = |error: SystemError| EngineError::during(&all, "listing keys")(error);
        let mut instances = Vec::new();
        for user in names::users(cx).map_err(failing)? {
            let file = ParsedFile::plain(&KeysFormat, default_target(&user));
            for (name, mut values) in file.instances(cx.system).map_err(failing)? {
                values.insert("user".to_owned(), Value::Text(user.name.clone()));
                instances.push((name, values));
            }
        }
        Ok(instances)
    }
}

fn default_target(user: &User) -> PathBuf {
    Path::new("/").join(&user.home).join(".ssh/authorized_keys")
}

/// The file of the resource; `None` when it depends on a user that does not exist.
fn file(cx: &Cx<'_>, resource: &Resource) -> Result<Option<ParsedFile>, EngineError> {
    let user = match resource.text("user") {
        Some(user) => {
            names::user(cx, user).map_err(EngineError::during(resource, "looking the user up"))?
        }
        None => None,
    };
    let target = resource
        .text("target")
        .map(PathBuf::from)
        .or_else(|| user.as_ref().map(default_target));
    let owner = names::settable_owner(cx.system, user.as_ref()).map_err(EngineError::during(
        resource,
        "looking at the machine's root",
    ))?;
    let with = |mode| Attributes {
        mode: Some(mode),
        ..owner
    };
    Ok(target.map(|path| ParsedFile {
        created: with(0o600),
        directory: Some(with(0o700)),
        ..ParsedFile::plain(&KeysFormat, path)
    }))
}

/// Refuses links in the user's own directory: they would have us write wherever the user likes.
fn guard(cx: &Cx<'_>, resource: &Resource, path: &Path) -> Result<(), EngineError> {
    for path in path.parent().into_iter().chain([path]) {
        let found = cx
            .system
            .metadata(path)
            .map_err(EngineError::during(resource, "looking at the file"))?;
        if found.is_some_and(|found| found.kind == FileKind::Link) {
            let problem = format!(
                "{} is a symbolic link; give the real place as `target`",
                path.display()
            );
            return Err(EngineError::failed(resource, problem));
        }
    }
    Ok(())
}

/// `options kind key comment`; see sshd(8).
#[derive(Debug)]
pub struct KeysFormat;

impl Format for KeysFormat {
    fn take(&self, lines: &[&str]) -> (usize, Option<Record>) {
        (1, lines.first().and_then(|line| parse(line)))
    }

    fn render(&self, record: &Record) -> Result<String, String> {
        let text = |name: &str| record.values.get(name).and_then(Value::as_text);
        let (kind, key) = (
            text("type").ok_or("a key needs `type`")?,
            text("key").ok_or("a key needs `key`")?,
        );
        let options = record
            .values
            .get("options")
            .map_or_else(String::new, |list| format!("{} ", list.as_list().join(",")));
        Ok(format!("{options}{kind} {key} {}\n", record.name))
    }
}

fn parse(line: &str) -> Option<Record> {
    let line = line.trim();
    let is_kind = |word: &str| TYPES.contains(&word);
    let mut values = Values::new();
    let mut rest = line;
    if !is_kind(line.split_whitespace().next()?) {
        let end = end_of_options(line)?;
        let (head, tail) = line.split_at_checked(end)?;
        values.insert("options".to_owned(), Value::List(options(head)?));
        rest = tail.trim_start();
    }
    let (kind, rest) = rest
        .split_once(char::is_whitespace)
        .filter(|(kind, _)| is_kind(kind))?;
    let rest = rest.trim_start();
    let (key, comment) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    values.insert("type".to_owned(), Value::from(kind));
    values.insert("key".to_owned(), Value::from(key));
    // A key without comment has nothing to be called by but itself.
    let name = if comment.trim().is_empty() {
        key
    } else {
        comment.trim()
    };
    Some(Record {
        name: name.to_owned(),
        values,
    })
}

/// Where the options end: at the first blank outside quotes.
fn end_of_options(line: &str) -> Option<usize> {
    let mut quoted = false;
    let mut letters = line.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' if quoted => drop(letters.next()),
            '"' => quoted = !quoted,
            blank if !quoted && blank.is_whitespace() => return Some(at),
            _ => {}
        }
    }
    None
}

/// Splits at commas outside quotes; `None` when a part is not `word` or `word="value"`.
fn options(text: &str) -> Option<Vec<String>> {
    let (mut parts, mut part, mut quoted) = (Vec::new(), String::new(), false);
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            ',' if !quoted => parts.push(std::mem::take(&mut part)),
            '\n' | '\r' => return None,
            _ => {
                part.push(letter);
                if letter == '\\' && quoted {
                    part.extend(letters.next());
                }
                quoted ^= letter == '"';
            }
        }
    }
    parts.push(part);
    (!quoted && parts.iter().all(|part| is_option(part))).then_some(parts)
}

fn is_option(part: &str) -> bool {
    let (word, value) = part
        .split_once('=')
        .map_or((part, None), |(word, value)| (word, Some(value)));
    let plain = !word.is_empty()
        && word
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    plain
        && value
            .is_none_or(|value| value.len() >= 2 && value.starts_with('"') && value.ends_with('"'))
}
