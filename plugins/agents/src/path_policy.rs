//! Decides which paths may be accessed. A path is checked after its links are resolved, and is then opened without following links.
//!
//! The decision applies to the object that is opened: if a directory is replaced by a link between check and open, the call fails.

use std::path::{Component, Path, PathBuf};

use muster_api::ActionError;
use muster_api::system::confined::{ConfinedEntry, ConfinedFile, ConfinedRoot, EntryStatus};
use muster_api::system::{FileEntryKind, System};

/// Maximum number of links followed in one path.
const MAX_LINKS: usize = 40;

/// Secrets and privilege configuration of the machine. The configuration cannot allow them.
const PROTECTED_PATHS: [&str; 11] = [
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/security/opasswd",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/muster",
    "/var/lib/muster",
    "/etc/ssl/private",
    "/etc/pki/tls/private",
];
/// Directory of the SSH host keys.
const SSH_DIRECTORY: &str = "/etc/ssh";

/// The configured rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathRules {
    /// Allowed directories and files, with everything below them.
    pub allow: Vec<PathBuf>,
    /// Exceptions from `allow`.
    pub deny: Vec<PathBuf>,
    /// The configuration key of `allow`, for refusals.
    pub allow_key: &'static str,
    /// The configuration key of `deny`, for refusals.
    pub deny_key: &'static str,
}

/// The configured and built-in rules.
#[derive(Debug)]
pub struct PathPolicy {
    rules: PathRules,
    /// Files of the daemon, as paths of the host.
    daemon_paths: Vec<PathBuf>,
}

/// A path that passed the policy, with its parent directory held open.
#[derive(Debug)]
pub struct AdmittedPath {
    /// The path with all links resolved.
    pub path: PathBuf,
    /// `None` when the parent directory does not exist.
    pub entry: Option<ConfinedEntry>,
    /// Denied files by device and inode: a hard link gives a denied file another path.
    denied_files: Vec<EntryStatus>,
    /// The configuration key of denied paths.
    deny_key: &'static str,
    /// Denied paths.
    denied_paths: Vec<PathBuf>,
}

impl PathPolicy {
    /// Creates a policy. `daemon_paths` are always denied.
    pub fn new(rules: PathRules, daemon_paths: Vec<PathBuf>) -> Self {
        Self { rules, daemon_paths }
    }

    /// Checks a path and opens its parent directory. With `follow`, a link as the last component is resolved; otherwise it is kept. Blocks.
    pub fn admit_path(
        &self,
        system: &dyn System,
        path: &str,
        follow: bool,
    ) -> Result<AdmittedPath, ActionError> {
        let requested = Path::new(path);
        let is_normal =
            |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
        if !requested.is_absolute() || !requested.components().all(is_normal) || path.contains('\0')
        {
            let message = format!("{} is not an absolute path without `..`", path.escape_debug());
            return Err(ActionError::invalid_input(message));
        }
        let resolved = resolve_links(system, requested, follow)?;
        let denied_paths = self.denied_paths(system);
        // Both forms must be allowed: this rejects links that lead out of an allowed directory, and links from outside into one.
        self.check_rules(requested, &denied_paths)?;
        self.check_rules(&resolved, &denied_paths)?;
        let root = ConfinedRoot::open(system.root())?;
        let status = |denied: &PathBuf| root.find_entry(denied).ok()??.status().ok()?;
        let is_file = |status: &EntryStatus| status.metadata.kind == FileEntryKind::File;
        let denied_files = denied_paths.iter().filter_map(status).filter(is_file);
        Ok(AdmittedPath {
            entry: root.find_entry(&resolved)?,
            denied_files: denied_files.collect(),
            deny_key: self.rules.deny_key,
            denied_paths,
            path: resolved,
        })
    }

    fn check_rules(&self, path: &Path, denied_paths: &[PathBuf]) -> Result<(), ActionError> {
        let unnumbered = without_rotation_suffix(path);
        let is_denied = |denied: &PathBuf| path.starts_with(denied) || unnumbered == *denied;
        if denied_paths.iter().any(is_denied) || is_host_key(path) {
            return Err(denied_error(path, self.rules.deny_key));
        }
        let allow = &self.rules.allow;
        if !allow.iter().any(|allowed| path.starts_with(allowed)) {
            return Err(denied_error(path, self.rules.allow_key));
        }
        Ok(())
    }

    /// All denied paths, both as configured and with links resolved.
    fn denied_paths(&self, system: &dyn System) -> Vec<PathBuf> {
        let to_system_path = |path: &PathBuf| {
            let relative = path.strip_prefix(system.root()).ok()?;
            Some(Path::new("/").join(relative))
        };
        let mut paths: Vec<PathBuf> = PROTECTED_PATHS.iter().map(PathBuf::from).collect();
        paths.extend(self.rules.deny.iter().cloned());
        paths.extend(self.daemon_paths.iter().filter_map(to_system_path));
        let resolved = paths.iter().filter_map(|path| resolve_links(system, path, true).ok());
        let resolved: Vec<PathBuf> = resolved.collect();
        paths.extend(resolved);
        paths.sort();
        paths.dedup();
        paths
    }
}

impl AdmittedPath {
    /// Whether the directory contains a denied path; then it is not removed recursively.
    pub fn contains_denied_path(&self) -> bool {
        let ssh = Path::new(SSH_DIRECTORY);
        let mut denied_paths = self.denied_paths.iter().map(PathBuf::as_path);
        denied_paths.any(|denied| denied.starts_with(&self.path)) || ssh.starts_with(&self.path)
    }

    /// Opens the file or directory; `None` when it does not exist. Rejects hard links to denied files, and any file with several hard links that is
    /// not world-readable, because one of its links may be in a denied directory.
    pub fn open_target(&self) -> Result<Option<ConfinedFile>, ActionError> {
        let Some(entry) = &self.entry else { return Ok(None) };
        if entry.status()?.is_none() {
            return Ok(None);
        }
        let file = entry.open()?;
        let status = file.status();
        let is_same = |other: &EntryStatus| status.is_same_file(other);
        let is_protected = status.is_hard_linked() && !file.is_world_readable();
        if is_protected || self.denied_files.iter().any(is_same) {
            return Err(denied_error(&self.path, self.deny_key));
        }
        Ok(Some(file))
    }
}

fn denied_error(path: &Path, key: &'static str) -> ActionError {
    let message = format!("access to {} is denied on this node", path.display());
    ActionError::denied_by_rule(message, key)
}

/// Removes a numeric extension: `audit.log.3` is a rotated part of `audit.log`.
fn without_rotation_suffix(path: &Path) -> PathBuf {
    let number = path.extension().and_then(|extension| extension.to_str());
    match number {
        Some(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => path.with_extension(""),
        _ => path.to_owned(),
    }
}

/// Whether the path is a private SSH host key, by the names that `sshd` and its packages use.
fn is_host_key(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    path.starts_with(SSH_DIRECTORY)
        && name.is_some_and(|name| {
            name.starts_with("ssh_host_")
                && name.contains("_key")
                && path.extension().is_none_or(|extension| extension != "pub")
        })
}

/// Resolves the links of an absolute path.
fn resolve_links(system: &dyn System, path: &Path, follow: bool) -> Result<PathBuf, ActionError> {
    let mut pending: Vec<PathBuf> = reversed_components(path);
    let (mut resolved, mut links) = (PathBuf::from("/"), 0);
    while let Some(part) = pending.pop() {
        if part.as_os_str() == ".." {
            resolved.pop();
            continue;
        }
        let current = resolved.join(&part);
        let found = system.metadata(&current)?;
        let link = found.is_some_and(|found| found.kind == FileEntryKind::Link);
        if !link || (pending.is_empty() && !follow) {
            resolved = current;
            continue;
        }
        links += 1;
        if links > MAX_LINKS {
            let message = format!("{}: too many symbolic links in the path", path.display());
            return Err(ActionError::failed(message));
        }
        let target = system.read_link(&current)?;
        if target.is_absolute() {
            resolved = PathBuf::from("/");
        }
        pending.extend(reversed_components(&target));
    }
    Ok(resolved)
}

/// The components of a path, last one first.
fn reversed_components(path: &Path) -> Vec<PathBuf> {
    let names = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(PathBuf::from(name)),
        Component::ParentDir => Some(PathBuf::from("..")),
        _ => None,
    });
    let mut names: Vec<PathBuf> = names.collect();
    names.reverse();
    names
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::{Path, PathBuf};

    use muster_api::ActionError;
    use muster_api::system::real::RealSystem;
    use muster_api::wire::status::ReplyStatus;
    use proptest::prelude::*;

    use super::{PathPolicy, PathRules};

    fn fence(allow: &[&str], deny: &[&str]) -> PathPolicy {
        let paths = |texts: &[&str]| texts.iter().map(Into::into).collect();
        let rules = PathRules {
            allow: paths(allow),
            deny: paths(deny),
            allow_key: "plugins.filemgr.allow",
            deny_key: "plugins.filemgr.deny",
        };
        PathPolicy::new(rules, Vec::new())
    }

    struct Machine {
        _root: tempfile::TempDir,
        system: RealSystem,
    }

    fn machine() -> Machine {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        std::fs::create_dir_all(at("srv/app")).unwrap();
        std::fs::create_dir_all(at("etc")).unwrap();
        std::fs::write(at("srv/app/log"), "x").unwrap();
        std::fs::write(at("etc/shadow"), "secret").unwrap();
        for (target, link) in [
            ("/etc/shadow", "srv/app/link"),
            ("../../etc", "srv/app/up"),
            ("/srv/app/loop", "srv/app/loop"),
            ("log", "srv/app/near"),
        ] {
            symlink(target, at(link)).unwrap();
        }
        let system = RealSystem::new(root.path().to_owned());
        Machine { _root: root, system }
    }

    fn admit(
        machine: &Machine,
        fence: &PathPolicy,
        path: &str,
        follow: bool,
    ) -> Result<PathBuf, ActionError> {
        fence.admit_path(&machine.system, path, follow).map(|admitted| admitted.path)
    }

    #[test]
    fn links_do_not_bypass_the_policy() {
        let (machine, fence) = (machine(), fence(&["/srv"], &["/srv/secret"]));
        let admit = |path: &str, follow| admit(&machine, &fence, path, follow);
        assert_eq!(admit("/srv/app/log", true).unwrap(), Path::new("/srv/app/log"));
        assert_eq!(admit("/srv/app/near", true).unwrap(), Path::new("/srv/app/log"));
        // The link itself is inside the allowed path, its target is not.
        assert_eq!(admit("/srv/app/link", false).unwrap(), Path::new("/srv/app/link"));
        for path in
            ["/srv/app/link", "/srv/app/up/shadow", "/etc/shadow", "/srv/secret/x", "/srvx", "/"]
        {
            let error = admit(path, true).unwrap_err();
            assert_eq!(error.status, ReplyStatus::Other, "{path}: {error}");
        }
        assert!(
            admit("/srv/app/loop", true).unwrap_err().message.contains("too many symbolic links")
        );
        for path in ["srv/app", "/srv/../etc/shadow", "", "/srv/a\0b"] {
            let error = admit(path, true).unwrap_err();
            assert_eq!(error.status, ReplyStatus::InvalidData, "{path:?}");
        }
        let crossed = |path: &str| {
            let admitted = fence.admit_path(&machine.system, path, true).unwrap();
            admitted.contains_denied_path()
        };
        assert!(crossed("/srv") && !crossed("/srv/app"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn admitted_paths_are_inside_the_allowed_directory(path in "/(srv|app|up|link|near|etc|shadow|/|\\.\\.|\\.){0,8}") {
            let (machine, fence) = (machine(), fence(&["/srv"], &[]));
            if let Ok(real) = admit(&machine, &fence, &path, true) {
                prop_assert!(real.starts_with("/srv"), "{}", real.display());
            }
        }
    }
}
