//! What was seen of the fleet last: names of nodes and facts, in a small file among the user's caches. It is for
//! completion only; nothing is ever asked or decided by it. What cannot be read or written is simply not known.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::caches;
use crate::environment::Environment;

/// Most names of each kind that are kept.
const NAMES: usize = 5000;
/// Longest name that is kept, in bytes.
const NAME_BYTES: usize = 256;
/// Largest file that is read.
const FILE_BYTES: usize = 4 * 1024 * 1024;
/// How long names that were not seen again are kept.
const AGE: Duration = Duration::from_hours(24);

/// Names that were seen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Nodes.
    #[serde(default)]
    pub nodes: BTreeSet<String>,
    /// Facts.
    #[serde(default)]
    pub facts: BTreeSet<String>,
}

impl Memory {
    /// What is remembered; nothing when it is too old, or cannot be read.
    pub fn load(environment: &Environment) -> Self {
        place(environment)
            .and_then(|path| Self::read(&path))
            .unwrap_or_default()
    }

    fn read(path: &Path) -> Option<Self> {
        let written = path.metadata().and_then(|file| file.modified()).ok()?;
        let age = SystemTime::now()
            .duration_since(written)
            .unwrap_or_default();
        if age > AGE {
            return None;
        }
        serde_json::from_slice(&caches::read(path, FILE_BYTES)?).ok()
    }

    /// Adds what was seen now. That it cannot be written is no reason to trouble anybody.
    pub fn add(environment: &Environment, seen: Self) {
        let Some(path) = place(environment) else {
            return;
        };
        let mut memory = Self::load(environment);
        let before = memory.clone();
        extend(&mut memory.nodes, seen.nodes);
        extend(&mut memory.facts, seen.facts);
        if memory == before {
            return;
        }
        if let Ok(bytes) = serde_json::to_vec(&memory) {
            let _ = caches::replace(&path, &bytes);
        }
    }
}

fn extend(names: &mut BTreeSet<String>, seen: BTreeSet<String>) {
    let room = NAMES.saturating_sub(names.len());
    let fits = |name: &String| {
        name.len() <= NAME_BYTES && !name.contains(|c: char| c.is_control() || c.is_whitespace())
    };
    names.extend(seen.into_iter().filter(fits).take(room));
}

fn place(environment: &Environment) -> Option<PathBuf> {
    Some(caches::directory(environment)?.join("seen.json"))
}

#[cfg(test)]
mod tests {
    use super::{Memory, NAMES};
    use crate::environment::Environment;

    #[test]
    fn names_are_remembered_within_limits() {
        let scratch = tempfile::tempdir().unwrap();
        let environment = Environment {
            cache_home: Some(scratch.path().to_owned()),
            ..Environment::default()
        };
        assert_eq!(Memory::load(&environment), Memory::default());
        let nodes = |names: &[&str]| Memory {
            nodes: names.iter().map(|name| (*name).to_owned()).collect(),
            ..Memory::default()
        };
        Memory::add(&environment, nodes(&["a", "b"]));
        Memory::add(&environment, nodes(&["b", "c", "no name"]));
        assert_eq!(Memory::load(&environment), nodes(&["a", "b", "c"]));
        let many: Vec<String> = (0..2 * NAMES).map(|n| format!("n{n}")).collect();
        Memory::add(
            &environment,
            nodes(&many.iter().map(String::as_str).collect::<Vec<_>>()),
        );
        assert_eq!(Memory::load(&environment).nodes.len(), NAMES);
        std::fs::write(scratch.path().join("muster/seen.json"), "{").unwrap();
        assert_eq!(Memory::load(&environment), Memory::default());
        Memory::add(&Environment::default(), nodes(&["a"]));
    }
}
