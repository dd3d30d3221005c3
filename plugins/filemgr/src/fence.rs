//! Which paths may be touched. A path is judged where it really leads: links on the way are followed first.
//!
//! Whoever can swap a directory for a link between the judgement and the deed can already write there.

use std::path::{Component, Path, PathBuf};

use muster_api::ActionError;
use muster_api::system::error::chain;
use muster_api::system::{FileKind, System};

use crate::Options;

/// Most links on the way of one path.
const LINKS: usize = 40;

/// The rules.
#[derive(Debug)]
pub(crate) struct Fence {
    options: Options,
}

impl Fence {
    pub(crate) fn new(options: Options) -> Self {
        Self { options }
    }

    /// Where the path really leads, if it may be touched: its last name as it is, or with `follow` what a link there leads
    /// to. Blocks.
    pub(crate) fn admit(
        &self,
        system: &dyn System,
        path: &str,
        follow: bool,
    ) -> Result<PathBuf, ActionError> {
        let asked = Path::new(path);
        let plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
        if !asked.is_absolute() || !asked.components().all(plain) || path.contains('\0') {
            let message = format!(
                "{} is not an absolute path without `..`",
                path.escape_debug()
            );
            return Err(ActionError::invalid(message));
        }
        let real = resolve(system, asked, follow)?;
        self.judge(asked)?;
        self.judge(&real)?;
        Ok(real)
    }

    fn judge(&self, path: &Path) -> Result<(), ActionError> {
        let Options { allow, deny } = &self.options;
        let denied = |rule: &str| {
            let message = format!("{} may not be touched on this node", path.display());
            Err(ActionError::denied(
                message,
                format!("plugins.filemgr.{rule}"),
            ))
        };
        if deny.iter().any(|place| path.starts_with(place)) {
            return denied("deny");
        }
        if !allow.iter().any(|place| path.starts_with(place)) {
            return denied("allow");
        }
        Ok(())
    }

    /// Whether something below this directory is out of bounds; then it is not removed as a whole.
    pub(crate) fn is_crossed(&self, directory: &Path) -> bool {
        let deny = &self.options.deny;
        deny.iter().any(|place| place.starts_with(directory))
    }
}

/// Follows the links on the way of an absolute path.
fn resolve(system: &dyn System, path: &Path, follow: bool) -> Result<PathBuf, ActionError> {
    let mut waiting: Vec<PathBuf> = parts(path);
    let (mut real, mut links) = (PathBuf::from("/"), 0);
    while let Some(part) = waiting.pop() {
        if part.as_os_str() == ".." {
            real.pop();
            continue;
        }
        let here = real.join(&part);
        let found = system.metadata(&here).map_err(|error| failed(&error))?;
        let link = found.is_some_and(|found| found.kind == FileKind::Link);
        if !link || (waiting.is_empty() && !follow) {
            real = here;
            continue;
        }
        links += 1;
        if links > LINKS {
            let message = format!("{}: too many links on the way", path.display());
            return Err(ActionError::failed(message));
        }
        let target = system.read_link(&here).map_err(|error| failed(&error))?;
        if target.is_absolute() {
            real = PathBuf::from("/");
        }
        waiting.extend(parts(&target));
    }
    Ok(real)
}

/// The names of a path, the last one first.
fn parts(path: &Path) -> Vec<PathBuf> {
    let names = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(PathBuf::from(name)),
        Component::ParentDir => Some(PathBuf::from("..")),
        _ => None,
    });
    let mut names: Vec<PathBuf> = names.collect();
    names.reverse();
    names
}

/// What the machine says, as an answer.
pub(crate) fn failed(error: &dyn std::error::Error) -> ActionError {
    ActionError::failed(chain(error))
}

#[cfg(test)]
mod tests {
    use muster_api::system::System;
    use muster_api::system::fake::FakeSystem;
    use muster_api::wire::status::Status;
    use proptest::prelude::*;
    use std::path::Path;

    use super::Fence;
    use crate::Options;

    fn fence(allow: &[&str], deny: &[&str]) -> Fence {
        let paths = |texts: &[&str]| texts.iter().map(Into::into).collect();
        Fence::new(Options {
            allow: paths(allow),
            deny: paths(deny),
        })
    }

    fn system() -> FakeSystem {
        let system = FakeSystem::new();
        system.file("/srv/app/log", "x");
        system.file("/etc/shadow", "secret");
        for (target, link) in [
            ("/etc/shadow", "/srv/app/link"),
            ("../../etc", "/srv/app/up"),
            ("/srv/app/loop", "/srv/app/loop"),
            ("log", "/srv/app/near"),
        ] {
            system.symlink(Path::new(target), Path::new(link)).unwrap();
        }
        system
    }

    #[test]
    fn links_lead_nobody_around_the_fence() {
        let (system, fence) = (system(), fence(&["/srv"], &["/srv/secret"]));
        let admit = |path: &str, follow| fence.admit(&system, path, follow);
        assert_eq!(
            admit("/srv/app/log", true).unwrap(),
            Path::new("/srv/app/log")
        );
        assert_eq!(
            admit("/srv/app/near", true).unwrap(),
            Path::new("/srv/app/log")
        );
        // The link itself lies inside, what it leads to does not.
        assert_eq!(
            admit("/srv/app/link", false).unwrap(),
            Path::new("/srv/app/link")
        );
        for path in [
            "/srv/app/link",
            "/srv/app/up/shadow",
            "/etc/shadow",
            "/srv/secret/x",
            "/srvx",
            "/",
        ] {
            let error = admit(path, true).unwrap_err();
            assert_eq!(error.status, Status::Other, "{path}: {error}");
        }
        assert!(
            admit("/srv/app/loop", true)
                .unwrap_err()
                .message
                .contains("too many links")
        );
        for path in ["srv/app", "/srv/../etc/shadow", "", "/srv/a\0b"] {
            let error = admit(path, true).unwrap_err();
            assert_eq!(error.status, Status::InvalidData, "{path:?}");
        }
        assert!(fence.is_crossed(Path::new("/srv")) && !fence.is_crossed(Path::new("/srv/app")));
    }

    proptest! {
        #[test]
        fn whatever_is_admitted_lies_inside(path in "/(srv|app|up|link|near|etc|shadow|/|\\.\\.|\\.){0,8}") {
            let (system, fence) = (system(), fence(&["/srv"], &[]));
            if let Ok(real) = fence.admit(&system, &path, true) {
                prop_assert!(real.starts_with("/srv"), "{}", real.display());
            }
        }
    }
}
