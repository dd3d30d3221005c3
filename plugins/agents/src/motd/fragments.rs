//! Reads the fragments of a text, and the administrator's own file.

use std::path::Path;

use muster_api::system::error::found_or_none;
use muster_api::system::{System, SystemError, SystemResult};
use muster_engine::types::motd_fragment::{FragmentName, FragmentTarget, MAX_FRAGMENT_BYTES};

use crate::motd::template::FragmentTemplate;

/// Most fragments of a text.
const MAX_FRAGMENTS: usize = 256;
/// Order of the administrator's file among the fragments.
const LOCAL_ORDER: u32 = 15;
/// Largest administrator's file, in bytes.
const MAX_LOCAL_BYTES: u64 = 16 * 1024;

/// The fragments of a text in order, and the files that cannot be read.
#[derive(Debug, Default)]
pub(crate) struct FragmentSet {
    pub(crate) templates: Vec<FragmentTemplate>,
    pub(crate) problems: Vec<FragmentReadError>,
}

/// A file that is left out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FragmentReadError {
    /// It cannot be read.
    #[error("fragment is left out")]
    Read(#[from] SystemError),
    /// There are too many.
    #[error("{count} fragments are left out; the limit is {MAX_FRAGMENTS}")]
    TooMany { count: usize },
}

/// Reads the fragments of a target. `local` is only for the message of the day.
pub(crate) fn read_fragments(
    system: &dyn System,
    target: FragmentTarget,
    local: Option<&Path>,
) -> FragmentSet {
    let mut set = FragmentSet::default();
    let directory = target.directory();
    let names = match found_or_none(system.read_dir(&directory)) {
        Ok(names) => names.unwrap_or_default(),
        Err(error) => {
            set.problems.push(error.into());
            return set;
        }
    };
    let mut fragments: Vec<_> = names.iter().filter_map(|name| FragmentName::parse(name)).collect();
    fragments.sort_unstable();
    if fragments.len() > MAX_FRAGMENTS {
        set.problems.push(FragmentReadError::TooMany { count: fragments.len() - MAX_FRAGMENTS });
        fragments.truncate(MAX_FRAGMENTS);
    }
    let mut local = local.and_then(|path| set.read_local(system, path));
    for fragment in fragments {
        if fragment.order > LOCAL_ORDER {
            set.templates.extend(local.take());
        }
        match read_text(system, &directory.join(&fragment.file_name), MAX_FRAGMENT_BYTES) {
            Ok(content) if content.is_empty() => set.templates.push(FragmentTemplate {
                content: target.default_content(&fragment.name),
                name: fragment.file_name,
                // The name is text, also if it looks like a template.
                is_literal: true,
            }),
            Ok(content) => set.templates.push(FragmentTemplate {
                name: fragment.file_name,
                content,
                is_literal: false,
            }),
            Err(error) => set.problems.push(error.into()),
        }
    }
    set.templates.extend(local);
    set
}

impl FragmentSet {
    fn read_local(&mut self, system: &dyn System, path: &Path) -> Option<FragmentTemplate> {
        match found_or_none(read_text(system, path, MAX_LOCAL_BYTES)) {
            Ok(content) => content.map(|content| FragmentTemplate {
                name: path.display().to_string(),
                content,
                is_literal: true,
            }),
            Err(error) => {
                self.problems.push(error.into());
                None
            }
        }
    }
}

fn read_text(system: &dyn System, path: &Path, limit: u64) -> SystemResult<String> {
    system.check_protected(path)?;
    Ok(String::from_utf8_lossy(&system.read_file(path, limit)?).into_owned())
}
