//! The files of a machine that is only memory. Knows no commands, no clock and no locks.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use nix::errno::Errno;

use crate::path::resolve;
use crate::{Attributes, FileKind, Metadata, SystemError};

/// What is at a path.
#[derive(Debug, Clone)]
pub(super) enum Content {
    File(Vec<u8>),
    Directory,
    Link(PathBuf),
}

#[derive(Debug, Clone)]
struct Node {
    content: Content,
    mode: u32,
    uid: u32,
    gid: u32,
    modified: SystemTime,
    changed: SystemTime,
    inode: u64,
}

/// All nodes by their path without links; always has `/`.
#[derive(Debug)]
pub(super) struct Tree {
    nodes: BTreeMap<PathBuf, Node>,
    /// How many nodes were put there so far.
    puts: u64,
}

impl Tree {
    pub(super) fn new(now: SystemTime) -> Self {
        let root = Node {
            content: Content::Directory,
            mode: 0o755,
            uid: 0,
            gid: 0,
            modified: now,
            changed: now,
            inode: 0,
        };
        Self {
            nodes: BTreeMap::from([(PathBuf::from("/"), root)]),
            puts: 0,
        }
    }

    /// The path without links.
    pub(super) fn resolve(&self, path: &Path, follow: bool) -> Result<PathBuf, SystemError> {
        resolve(path, follow, &|at| {
            Ok(match self.nodes.get(at).map(|node| &node.content) {
                Some(Content::Link(target)) => Some(target.clone()),
                _ => None,
            })
        })
    }

    pub(super) fn metadata(&self, at: &Path) -> Option<Metadata> {
        self.nodes.get(at).map(|node| Metadata {
            kind: match node.content {
                Content::File(_) => FileKind::File,
                Content::Directory => FileKind::Directory,
                Content::Link(_) => FileKind::Link,
            },
            mode: node.mode,
            uid: node.uid,
            gid: node.gid,
            size: match &node.content {
                Content::File(bytes) => bytes.len() as u64,
                Content::Directory => 0,
                Content::Link(target) => target.as_os_str().len() as u64,
            },
            modified: node.modified,
            accessed: node.modified,
            changed: node.changed,
            inode: node.inode,
        })
    }

    pub(super) fn content(&self, at: &Path) -> io::Result<&Content> {
        self.nodes
            .get(at)
            .map(|node| &node.content)
            .ok_or_else(|| Errno::ENOENT.into())
    }

    pub(super) fn names(&self, at: &Path) -> io::Result<Vec<String>> {
        match self.content(at)? {
            Content::Directory => Ok(self
                .nodes
                .keys()
                .filter(|path| path.parent() == Some(at))
                .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
                .collect()),
            _ => Err(Errno::ENOTDIR.into()),
        }
    }

    /// Puts a file, directory or link at a path; what is left unsaid comes from what was there, then from the default.
    pub(super) fn put(
        &mut self,
        at: &Path,
        content: Content,
        attributes: &Attributes,
        now: SystemTime,
    ) -> io::Result<()> {
        self.parent_is_directory(at)?;
        let old = self.nodes.get(at);
        let default = match content {
            Content::File(_) => 0o644,
            Content::Directory => 0o755,
            Content::Link(_) => 0o777,
        };
        let node = Node {
            content,
            mode: attributes
                .mode
                .or(old.map(|old| old.mode))
                .unwrap_or(default)
                & 0o7777,
            uid: attributes.uid.or(old.map(|old| old.uid)).unwrap_or(0),
            gid: attributes.gid.or(old.map(|old| old.gid)).unwrap_or(0),
            modified: now,
            changed: now,
            inode: self.puts + 1,
        };
        self.puts += 1;
        self.nodes.insert(at.to_owned(), node);
        Ok(())
    }

    pub(super) fn set(
        &mut self,
        at: &Path,
        attributes: &Attributes,
        now: SystemTime,
    ) -> io::Result<()> {
        let node = self.nodes.get_mut(at).ok_or(Errno::ENOENT)?;
        node.changed = now;
        if !matches!(node.content, Content::Link(_)) {
            node.mode = attributes.mode.unwrap_or(node.mode) & 0o7777;
        }
        node.uid = attributes.uid.unwrap_or(node.uid);
        node.gid = attributes.gid.unwrap_or(node.gid);
        Ok(())
    }

    pub(super) fn remove_file(&mut self, at: &Path) -> io::Result<()> {
        if let Some(Node {
            content: Content::Directory,
            ..
        }) = self.nodes.get(at)
        {
            return Err(Errno::EISDIR.into());
        }
        self.nodes.remove(at);
        Ok(())
    }

    pub(super) fn remove_tree(&mut self, at: &Path) -> io::Result<()> {
        if at == Path::new("/") {
            return Err(Errno::EINVAL.into());
        }
        self.nodes.retain(|path, _| !path.starts_with(at));
        Ok(())
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.parent_is_directory(to)?;
        let from_directory = matches!(self.content(from)?, Content::Directory);
        if to != from && to.starts_with(from) {
            return Err(Errno::EINVAL.into());
        }
        match (from_directory, self.content(to)) {
            (false, Ok(Content::Directory)) => return Err(Errno::EISDIR.into()),
            (true, Ok(Content::File(_) | Content::Link(_))) => return Err(Errno::ENOTDIR.into()),
            (true, Ok(Content::Directory)) if from != to && !self.names(to)?.is_empty() => {
                return Err(Errno::ENOTEMPTY.into());
            }
            _ => {}
        }
        let moved: Vec<PathBuf> = self
            .nodes
            .keys()
            .filter(|path| path.starts_with(from))
            .cloned()
            .collect();
        for path in moved {
            let below = path.strip_prefix(from).unwrap_or(Path::new(""));
            let new = if below.as_os_str().is_empty() {
                to.to_owned()
            } else {
                to.join(below)
            };
            if let Some(node) = self.nodes.remove(&path) {
                self.nodes.insert(new, node);
            }
        }
        Ok(())
    }

    fn parent_is_directory(&self, at: &Path) -> io::Result<()> {
        let parent = at.parent().ok_or(Errno::EEXIST)?;
        match self.content(parent)? {
            Content::Directory => Ok(()),
            _ => Err(Errno::ENOTDIR.into()),
        }
    }
}
