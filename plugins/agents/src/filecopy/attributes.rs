//! Mode, owner and group of a target, as a caller names them and as the machine numbers them.

use std::path::Path;

use muster_api::ActionError;
use muster_api::system::{FileAttributes, FileMetadata, System};
use muster_contract::filecopy::FilecopyBeginInput;
use serde::{Deserialize, Serialize};

/// Largest passwd or group file that is searched, in bytes.
const MAX_DATABASE_BYTES: u64 = 16 * 1024 * 1024;
/// Mode of a new target if the caller names none.
const DEFAULT_MODE: u32 = 0o644;

/// The attributes that a target shall have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DesiredAttributes {
    /// Absent if an existing target keeps its mode.
    mode: Option<u32>,
    /// Mode of a new target.
    new_mode: u32,
    uid: Option<u32>,
    gid: Option<u32>,
}

impl DesiredAttributes {
    /// Reads the inputs; names are looked up on the machine.
    pub(crate) fn from_input(
        input: &FilecopyBeginInput,
        system: &dyn System,
    ) -> Result<Self, ActionError> {
        let mode = input.mode.as_deref().map(parse_mode).transpose()?;
        let new_mode = input.new_mode.as_deref().map(parse_mode).transpose()?;
        let id = |name: &Option<String>, (file, kind)| {
            name.as_deref().map(|name| look_up_id(system, name, file, kind)).transpose()
        };
        Ok(Self {
            mode,
            new_mode: new_mode.unwrap_or(DEFAULT_MODE),
            uid: id(&input.owner, ("/etc/passwd", "user"))?,
            gid: id(&input.group, ("/etc/group", "group"))?,
        })
    }

    /// The attributes that an existing target lacks; `None` if it has all.
    pub(crate) fn missing_on(&self, found: &FileMetadata) -> Option<FileAttributes> {
        let missing = FileAttributes {
            mode: self.mode.filter(|mode| *mode != found.mode),
            uid: self.uid.filter(|uid| *uid != found.uid),
            gid: self.gid.filter(|gid| *gid != found.gid),
        };
        (missing != FileAttributes::default()).then_some(missing)
    }

    /// The attributes of the file that replaces the target, or that is new.
    pub(crate) fn of_replacement(&self, target: Option<&FileMetadata>) -> FileAttributes {
        FileAttributes {
            mode: self.mode.or(target.map(|target| target.mode)).or(Some(self.new_mode)),
            uid: self.uid.or(target.map(|target| target.uid)),
            gid: self.gid.or(target.map(|target| target.gid)),
        }
    }
}

/// Parses an octal mode without the bits that give a program the rights of its owner.
fn parse_mode(text: &str) -> Result<u32, ActionError> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| {
        let text = text.escape_debug();
        ActionError::invalid_input(format!("`{text}` is not a mode from 0000 to 0777"))
    })
}

/// The number of a user or group, given by name or number.
fn look_up_id(system: &dyn System, name: &str, file: &str, kind: &str) -> Result<u32, ActionError> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let database = system.read_file(Path::new(file), MAX_DATABASE_BYTES)?;
    let database = String::from_utf8_lossy(&database);
    let number = database.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name).then(|| fields.nth(1)?.parse().ok()).flatten()
    });
    number.ok_or_else(|| {
        let name = name.escape_debug();
        ActionError::invalid_input(format!("this node has no {kind} {name} in {file}"))
    })
}
