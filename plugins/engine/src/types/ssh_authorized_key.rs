//! `ssh_authorized_key`: a line of `~/.ssh/authorized_keys`, identified by its comment.

use std::path::{Path, PathBuf};

use muster_system::{FileAttributes, FileEntryKind};

use crate::error::{DescribeOperation as _, EngineError, Result};
use crate::plan::{PropertyChange, ResourcePlan, ResourceState};
use crate::providers::account_names::{self, PasswdUser};
use crate::providers::parsed_file::{FileRecord, IncompleteRecord, ParsedFile, RecordFormat};
use crate::resource::{Resource, ResourceValue, ResourceValues, name_values};
use crate::resource_type::{
    AutoRequire, BoundResource, CatalogResources, ResourceContext, ResourceType, find_instance,
};
use crate::schema::AttributeKind::{AbsolutePath, Bool, List, Text};
use crate::schema::{TypeSchema, parameter, presence_property, property, provider_parameter};

static SCHEMA: TypeSchema = TypeSchema {
    type_name: "ssh_authorized_key",
    doc: "An SSH public key that is authorized to log in to an account.",
    namevar: "name",
    attributes: &[
        presence_property("Whether the key exists."),
        property("type", Text, "The key type: `ssh-ed25519`, `ssh-rsa`, ..."),
        property("key", Text, "The key in base64."),
        property("user", Text, "The user whose account accepts the key."),
        property(
            "target",
            AbsolutePath,
            "The file; defaults to `.ssh/authorized_keys` of the user.",
        ),
        property("options", List, "Options of the key, each `word` or `word=\"value\"`.")
            .split_at_commas()
            .with_default("absent"),
        parameter(
            "drop_privileges",
            Bool,
            "Accepted for compatibility with Puppet; symbolic links are rejected instead.",
        ),
        provider_parameter(&["parsed"]),
        parameter("name", Text, "The comment after the key."),
    ],
};

/// Accepted names of key types, and the type each stands for.
const KEY_TYPE_ALIASES: [(&str, &str); 5] = [
    ("dsa", "ssh-dss"),
    ("ed25519", "ssh-ed25519"),
    ("rsa", "ssh-rsa"),
    ("ecdsa-sk", "sk-ecdsa-sha2-nistp256@openssh.com"),
    ("ed25519-sk", "sk-ssh-ed25519@openssh.com"),
];
const KEY_TYPES: [&str; 14] = [
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

/// The key type that a short name stands for.
pub(super) fn full_key_type(kind: &str) -> &str {
    let alias = KEY_TYPE_ALIASES.iter().find(|(short, _)| *short == kind);
    alias.map_or(kind, |(_, full)| full)
}

#[derive(Debug)]
pub struct SshAuthorizedKeyResourceType;

impl ResourceType for SshAuthorizedKeyResourceType {
    fn schema(&self) -> &'static TypeSchema {
        &SCHEMA
    }

    fn check(&self, mut resource: Resource) -> Result<Resource> {
        if resource.get("user").is_none() && resource.get("target").is_none() {
            let name = "user` or `target";
            return Err(EngineError::Missing { resource: resource.reference(), name });
        }
        if resource.name.contains(['\n', '\r']) {
            let problem = "has several lines, must be one";
            return Err(EngineError::invalid_value(&resource, "name", problem));
        }
        if let Some(kind) = resource.get_text("type") {
            let full = full_key_type(kind).to_owned();
            if !KEY_TYPES.contains(&full.as_str()) {
                let problem = format!("is `{kind}`, must be one of {}", KEY_TYPES.join(", "));
                return Err(EngineError::invalid_value(&resource, "type", problem));
            }
            resource.set_value("type", full);
        }
        let is_base64 = |c: char| c.is_ascii_alphanumeric() || "+/=".contains(c);
        if resource.get_text("key").is_some_and(|key| key.is_empty() || !key.chars().all(is_base64))
        {
            let problem = "must be only the base64 text, without key type and comment";
            return Err(EngineError::invalid_value(&resource, "key", problem));
        }
        let expected = "options, each `word` or `word=\"value\"`";
        resource.check_items("options", expected, |option| {
            option == "absent" || split_options(option).is_some_and(|all| all.len() == 1)
        })?;
        Ok(resource)
    }

    fn read_state(&self, resource: &BoundResource<'_>) -> Result<ResourceState> {
        let Some(file) = keys_file(resource)? else { return Ok(ResourceState::absent()) };
        let mut state = file.read_state(resource)?;
        if let (false, Some(user)) = (state.is_absent(), resource.get("user")) {
            state.values.insert("user".to_owned(), user.clone());
        }
        Ok(state)
    }

    fn apply_change(
        &self,
        cx: &ResourceContext<'_>,
        plan: &ResourcePlan,
        _: &PropertyChange,
    ) -> Result<()> {
        let resource = &cx.bind(&plan.resource);
        let file = keys_file(resource)?.ok_or_else(|| {
            let user = resource.get_text("user").unwrap_or_default();
            let problem = format!("user `{user}` does not exist; create it first, or set `target`");
            EngineError::failed(resource, problem)
        })?;
        refuse_links(resource, &file.path)?;
        file.apply_plan(cx, plan)
    }

    /// The user of the account, and the file itself.
    fn autorequires(&self, resource: &Resource, _: &dyn CatalogResources) -> Vec<AutoRequire> {
        let user = resource.get_text("user").map(|user| ("user", user.to_owned()));
        let target = resource.get_text("target").map(|target| ("file", target.to_owned()));
        user.into_iter().chain(target).collect()
    }

    fn find(&self, cx: &ResourceContext<'_>, title: &str) -> Result<ResourceState> {
        find_instance(self, cx, title)
    }

    fn list_instances(&self, cx: &ResourceContext<'_>) -> Result<Vec<(String, ResourceValues)>> {
        let all = Resource::without_values(&SCHEMA, "*")?;
        let mut instances = Vec::new();
        for user in account_names::list_users(cx).during(&all, "listing keys")? {
            let file = keys_file_at(default_target(&user));
            for (name, mut values) in file.list_instances(cx.system).during(&all, "listing keys")? {
                values.insert("user".to_owned(), user.name.clone().into());
                instances.push((name, values));
            }
        }
        Ok(instances)
    }
}

fn default_target(user: &PasswdUser) -> PathBuf {
    Path::new("/").join(&user.home).join(".ssh/authorized_keys")
}

pub(super) fn keys_file_at(path: impl Into<PathBuf>) -> ParsedFile {
    ParsedFile::new(&SCHEMA, &AuthorizedKeysFormat, path)
}

/// The key file; `None` if it depends on a user that does not exist.
fn keys_file(resource: &BoundResource<'_>) -> Result<Option<ParsedFile>> {
    let user = match resource.get_text("user") {
        Some(user) => {
            account_names::find_user(resource.cx, user).during(resource, "looking up the user")?
        }
        None => None,
    };
    let target = resource.get_text("target").map(PathBuf::from);
    let target = target.or_else(|| user.as_ref().map(default_target));
    let owner = account_names::settable_owner(resource.cx.system, user.as_ref())
        .during(resource, "inspecting the root directory")?;
    let with_mode = |mode| FileAttributes { mode: Some(mode), ..owner };
    Ok(target.map(|path| ParsedFile {
        created: with_mode(0o600),
        directory: Some(with_mode(0o700)),
        ..keys_file_at(path)
    }))
}

/// Rejects a key file or parent directory that is a symbolic link, because the user could redirect the write.
fn refuse_links(resource: &BoundResource<'_>, path: &Path) -> Result<()> {
    for path in path.parent().into_iter().chain([path]) {
        let found = resource.cx.system.metadata(path);
        let found = found.during(resource, "inspecting the file")?;
        if found.is_some_and(|found| found.kind == FileEntryKind::Link) {
            let problem =
                format!("{} is a symbolic link; set `target` to the real path", path.display());
            return Err(EngineError::failed(resource, problem));
        }
    }
    Ok(())
}

/// `options kind key comment`; see sshd(8).
#[derive(Debug)]
pub struct AuthorizedKeysFormat;

impl RecordFormat for AuthorizedKeysFormat {
    fn parse_line(&self, line: &str) -> Option<FileRecord> {
        let line = line.trim();
        let is_kind = |word: &str| KEY_TYPES.contains(&word);
        let mut values = ResourceValues::new();
        let mut rest = line;
        if !is_kind(line.split_whitespace().next()?) {
            let end = end_of_options(line)?;
            let (head, tail) = line.split_at_checked(end)?;
            values.insert("options".to_owned(), ResourceValue::List(split_options(head)?));
            rest = tail.trim_start();
        }
        let (kind, rest) =
            rest.split_once(char::is_whitespace).filter(|(kind, _)| is_kind(kind))?;
        let rest = rest.trim_start();
        let (key, comment) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        values.extend(name_values([("type", kind.into()), ("key", key.into())]));
        // A key without a comment is named by the key itself.
        let name = if comment.trim().is_empty() { key } else { comment.trim() };
        Some(FileRecord { name: name.to_owned(), values })
    }

    fn render(&self, record: &FileRecord) -> Result<String, IncompleteRecord> {
        let kind = record.require_text("type", "a key needs `type`")?;
        let key = record.require_text("key", "a key needs `key`")?;
        let line = format!("{kind} {key} {}\n", record.name);
        Ok(match record.get_list("options").as_slice() {
            [] => line,
            options => format!("{} {line}", options.join(",")),
        })
    }
}

/// End of the options: the first blank outside quotes.
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

/// Splits at commas outside quotes; `None` if a part is not `word` or `word="value"`.
fn split_options(text: &str) -> Option<Vec<String>> {
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
    let (word, value) = part.split_once('=').unwrap_or((part, "\"\""));
    let plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    let quoted = value.len() >= 2 && value.starts_with('"') && value.ends_with('"');
    plain && !word.is_empty() && quoted
}
