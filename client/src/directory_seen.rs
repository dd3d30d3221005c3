//! Whether a directory answered this user lately, in an empty file whose time says when: only then its absence deserves a message, because a fleet may
//! have no directory.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crate::cache_file::replace_cache_file;
use crate::settings::RpcSettings;

/// Time after which a directory that does not answer was probably removed on purpose.
const MAX_ABSENCE: Duration = Duration::from_hours(7 * 24);
/// The file is written again after this time.
const REFRESH_INTERVAL: Duration = Duration::from_hours(1);

/// When a directory answered last. Without a cache directory, never.
#[derive(Debug)]
pub(crate) struct DirectorySeen(Option<PathBuf>);

impl DirectorySeen {
    pub(crate) fn of_fleet(settings: &RpcSettings) -> Self {
        Self(settings.fleet_cache_directory().map(|directory| directory.join("directory-seen")))
    }

    /// Notes that a directory has answered now.
    pub(crate) fn record(&self) {
        if let Some(path) = &self.0
            && self.age().is_none_or(|age| age > REFRESH_INTERVAL)
        {
            // Errors are ignored, because it is only a cache.
            let _ = replace_cache_file(path, b"");
        }
    }

    /// Whether a directory answered within the last 7 days.
    pub(crate) fn is_recent(&self) -> bool {
        self.age().is_some_and(|age| age <= MAX_ABSENCE)
    }

    fn age(&self) -> Option<Duration> {
        let written = std::fs::metadata(self.0.as_ref()?).and_then(|file| file.modified()).ok()?;
        Some(SystemTime::now().duration_since(written).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn answer_is_remembered_for_a_week() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("fleet/directory-seen");
        let seen = DirectorySeen(Some(path.clone()));
        assert!(!seen.is_recent());
        seen.record();
        assert!(seen.is_recent());
        let set_age = |hours| {
            let time = SystemTime::now() - Duration::from_hours(hours);
            File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        };
        set_age(8 * 24);
        assert!(!seen.is_recent());
        set_age(2);
        seen.record();
        assert!(seen.age().unwrap() < Duration::from_hours(1));
        DirectorySeen(None).record();
        assert!(!DirectorySeen(None).is_recent());
    }
}
