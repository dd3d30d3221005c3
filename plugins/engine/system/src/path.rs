//! Resolves a node path link by link without leaving the node's root.
//!
//! Pure: the caller supplies the link lookup. Follows the rules of a chroot:
//! an absolute link restarts at the root, and `..` at the root stays there. Does not check existence.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path, PathBuf};

use crate::error::{SystemError, SystemResult, file_error};

/// Maximum number of links followed in one path, as in the Linux kernel.
const MAX_LINKS: usize = 40;

/// Resolves `path` to a path without links and without `..`; both are node paths (`/etc/passwd`).
///
/// `link` returns the target if the given path is a symbolic link. With `follow`, a link in the last component is followed too.
/// Rejects a relative path, or one whose own `..` components leave the root.
pub(crate) fn resolve_path(
    path: &Path,
    follow: bool,
    read_link: &dyn Fn(&Path) -> io::Result<Option<PathBuf>>,
) -> SystemResult<PathBuf> {
    check_path(path)?;
    let mut pending: VecDeque<OsString> = path_steps(path).collect();
    let mut resolved = PathBuf::from("/");
    let mut links = 0;
    while let Some(step) = pending.pop_front() {
        if step == OsStr::new("..") {
            resolved.pop();
            continue;
        }
        resolved.push(&step);
        if pending.is_empty() && !follow {
            break;
        }
        let target = read_link(&resolved).map_err(file_error("find", path))?;
        let Some(target) = target else { continue };
        links += 1;
        if links > MAX_LINKS {
            return Err(file_error("find", path)(nix::errno::Errno::ELOOP));
        }
        resolved.pop();
        if target.is_absolute() {
            resolved = PathBuf::from("/");
        }
        for step in path_steps(&target).collect::<Vec<_>>().into_iter().rev() {
            pending.push_front(step);
        }
    }
    Ok(resolved)
}

/// Rejects anything but an absolute path inside the machine.
pub(crate) fn check_path(path: &Path) -> SystemResult<()> {
    let invalid_path = || SystemError::Path { path: path.to_owned() };
    if !path.is_absolute() {
        return Err(invalid_path());
    }
    let mut depth = 0_usize;
    for component in path.components() {
        match component {
            Component::ParentDir => depth = depth.checked_sub(1).ok_or_else(invalid_path)?,
            Component::Normal(_) => depth += 1,
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    Ok(())
}

/// Names and `..`, without the root and without `.`.
fn path_steps(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn with(links: &BTreeMap<PathBuf, PathBuf>, path: &str, follow: bool) -> Option<PathBuf> {
        resolve_path(Path::new(path), follow, &|at| Ok(links.get(at).cloned())).ok()
    }

    fn links(pairs: &[(&str, &str)]) -> BTreeMap<PathBuf, PathBuf> {
        pairs.iter().map(|(from, to)| (PathBuf::from(from), PathBuf::from(to))).collect()
    }

    #[test]
    fn links_are_resolved_as_in_a_chroot() {
        let links = links(&[
            ("/bin", "usr/bin"),
            ("/etc/abs", "/srv/data"),
            ("/etc/up", "../../../../srv"),
            ("/loop", "/loop"),
        ]);
        let end = |path: &str| with(&links, path, true).unwrap();
        assert_eq!(end("/bin/sh"), Path::new("/usr/bin/sh"));
        assert_eq!(end("/etc/abs/x"), Path::new("/srv/data/x"));
        assert_eq!(end("/etc/up/x"), Path::new("/srv/x"));
        assert_eq!(end("/etc/up/../y"), Path::new("/y"));
        assert_eq!(with(&links, "/etc/abs", false).unwrap(), Path::new("/etc/abs"));
        assert_eq!(with(&links, "/loop", true), None);
    }

    #[test]
    fn paths_outside_the_root_are_refused() {
        for path in ["etc/passwd", "", "..", "/..", "/etc/../../etc", "./x"] {
            assert_eq!(with(&BTreeMap::new(), path, true), None, "{path}");
        }
    }

    proptest! {
        #[test]
        fn resolved_path_contains_no_link_and_no_parent(
            links in proptest::collection::btree_map("(/[abc]){1,3}", "/?([abc]|\\.\\.)(/([abc]|\\.\\.)){0,3}", 0..8),
            path in "/?([abc.]|\\.\\.)(/([abc]|\\.\\.)){0,5}",
        ) {
            let links = links.into_iter().map(|(k, v)| (k.into(), v.into())).collect();
            if let Some(end) = with(&links, &path, true) {
                prop_assert!(end.is_absolute());
                prop_assert!(end.components().all(|part| !matches!(part, Component::ParentDir)));
                prop_assert!(end.ancestors().all(|part| !links.contains_key(part)));
            }
        }
    }
}
