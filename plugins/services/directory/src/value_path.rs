//! Paths of values that are listed and counted: `os.family` is a fact, and `state.puppet.disabled` a part of the state of a subsystem.

use std::fmt;

use muster_filter::state::{FactPath, FactPathError, MapField};

/// A path of a fact, or one that begins with the name of another map. A fact with such a name (`state`) is reached as `"state".x`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValuePath {
    pub field: MapField,
    pub path: FactPath,
}

impl ValuePath {
    pub fn parse(text: &str) -> Result<Self, FactPathError> {
        let (name, below) = text.split_once('.').unwrap_or_default();
        let other = MapField::optional().find(|field| field.as_str() == name);
        let (field, rest) = other.map_or((MapField::Facts, text), |field| (field, below));
        FactPath::parse(rest).map(|path| Self { field, path })
    }
}

impl fmt::Display for ValuePath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.field != MapField::Facts {
            write!(out, "{}.", self.field.as_str())?;
        }
        out.write_str(self.path.as_str())
    }
}
