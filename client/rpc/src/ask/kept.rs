//! Schemas that were fetched from nodes, kept for later: one file for each agent, below the organisation and the collective
//! that they are of. Asks nobody; whether nodes agree on a schema is decided in `fetched`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use muster_ddl::{Ddl, MAX_DDL_BYTES};
use serde::{Deserialize, Serialize};

use super::fetched::{FetchError, Fetched};
use crate::caches;
use crate::clock;
use crate::environment::Environment;
use crate::files;
use crate::settings::Settings;

/// The form of the files.
const SCHEMA: &str = "muster.kept-ddl.v1";

/// Where fetched schemas are.
#[derive(Debug, Clone)]
pub struct Kept {
    directory: Option<PathBuf>,
}

/// A schema with what is known of its origin.
#[derive(Debug)]
pub struct KeptDdl {
    /// The schema.
    pub ddl: Ddl,
    /// When it was fetched, as text.
    pub fetched_at: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    schema: String,
    agent: String,
    version: String,
    sha256: String,
    fetched_at: String,
    ddl: String,
}

impl Kept {
    /// The schemas of the settings' organisation and collective; none without a home.
    pub fn of(settings: &Settings, environment: &Environment) -> Self {
        let below = |home: &PathBuf| {
            home.join("ddl")
                .join(settings.operator.to_string())
                .join(settings.collective.as_str())
        };
        Self {
            directory: caches::directory(environment).as_ref().map(below),
        }
    }

    /// All schemas that can be used, by the names of their files. A damaged file is as good as none: it can be fetched again.
    pub fn all(&self) -> Vec<KeptDdl> {
        let entries = self.directory.as_deref().map(fs::read_dir);
        let Some(Ok(entries)) = entries else {
            return Vec::new();
        };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        paths.iter().filter_map(|path| read(path)).collect()
    }

    /// Keeps a schema in the place of an older one, whole or not at all. Answers the file.
    pub fn keep(&self, fetched: &Fetched) -> Result<PathBuf, FetchError> {
        let directory = self.directory.as_ref().ok_or(FetchError::Homeless)?;
        let path = directory.join(format!("{}.json", fetched.ddl.name()));
        let entry = Entry {
            schema: SCHEMA.to_owned(),
            agent: fetched.ddl.name().to_owned(),
            version: fetched.ddl.version().to_owned(),
            sha256: fetched.sha256.clone(),
            fetched_at: clock::rfc3339(clock::now()),
            ddl: fetched.text.clone(),
        };
        let bytes = serde_json::to_vec(&entry).map_err(io::Error::from);
        let bytes = bytes.map_err(files::failed("write", &path))?;
        caches::replace(&path, &bytes)?;
        Ok(path)
    }
}

fn read(path: &Path) -> Option<KeptDdl> {
    let entry: Entry = serde_json::from_slice(&caches::read(path, 2 * MAX_DDL_BYTES)?).ok()?;
    let ddl = Fetched::checked(&entry.agent, &entry.sha256, entry.ddl)
        .ok()?
        .ddl;
    (entry.schema == SCHEMA).then_some(KeptDdl {
        ddl,
        fetched_at: entry.fetched_at,
    })
}

#[cfg(test)]
mod tests {
    use super::Kept;
    use crate::ask::fetched::Fetched;

    #[test]
    fn what_is_kept_is_found_again_and_what_is_damaged_is_not() {
        let home = tempfile::tempdir().unwrap();
        let kept = Kept {
            directory: Some(home.path().join("a/b")),
        };
        assert!(kept.all().is_empty());
        let text = r#"{"metadata":{"name":"disk","version":"1.2.3"},"actions":[]}"#;
        let fetched = Fetched::of("disk", text.to_owned()).unwrap();
        let path = kept.keep(&fetched).unwrap();
        let all = kept.all();
        assert_eq!((all.len(), all[0].ddl.version()), (1, "1.2.3"));
        let damaged = std::fs::read_to_string(&path)
            .unwrap()
            .replace("1.2.3", "6.6.6");
        std::fs::write(&path, damaged).unwrap();
        assert!(kept.all().is_empty());
    }
}
