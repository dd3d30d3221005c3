//! The programs of this commit, and those of the earlier one that `tests/earlier.toml` names. `tools/earlier` builds the latter.

use std::path::PathBuf;

use serde::Deserialize;

use crate::command::{find_in_target, find_program};

/// Which commit a program is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramVersion {
    /// The commit in `tests/earlier.toml`.
    Earlier,
    /// This one.
    Present,
}

#[derive(Deserialize)]
struct EarlierCommit {
    commit: String,
}

impl ProgramVersion {
    /// Both versions.
    pub const BOTH: [Self; 2] = [Self::Earlier, Self::Present];

    /// The path of `rpc` or `rpcd` of this version.
    pub fn find_program(self, name: &str) -> PathBuf {
        if self == Self::Present {
            return find_program(name);
        }
        let EarlierCommit { commit } = toml::from_str(include_str!("../earlier.toml")).unwrap();
        find_in_target(&format!("earlier/{commit}/{name}")).unwrap_or_else(|| {
            panic!("{name} of the earlier commit {commit} is missing: run `tools/earlier`")
        })
    }

    /// The other version.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Earlier => Self::Present,
            Self::Present => Self::Earlier,
        }
    }
}
