//! File tree of an in-memory machine. Independent of commands, clock and locks.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use nix::errno::Errno;

use crate::path::resolve_path;
use crate::{FileAttributes, FileEntryKind, FileMetadata, SystemError};

/// Content of a node.
#[derive(Debug, Clone)]
pub(super) enum FakeNodeContent {
    File(Vec<u8>),
    Directory,
    Link(PathBuf),
}

#[derive(Debug, Clone)]
struct FakeTreeNode {
    content: FakeNodeContent,
    mode: u32,
    uid: u32,
    gid: u32,
    modified: SystemTime,
    changed: SystemTime,
    inode: u64,
}

/// All nodes by path without links; always contains `/`.
#[derive(Debug)]
pub(super) struct FakeFileTree {
    nodes: BTreeMap<PathBuf, FakeTreeNode>,
    /// Number of nodes created so far.
    puts: u64,
}

impl FakeFileTree {
    pub(super) fn new(now: SystemTime) -> Self {
        let root = FakeTreeNode {
            content: FakeNodeContent::Directory,
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
    pub(super) fn resolve_path(&self, path: &Path, follow: bool) -> Result<PathBuf, SystemError> {
        resolve_path(path, follow, &|at| {
            Ok(match self.nodes.get(at).map(|node| &node.content) {
                Some(FakeNodeContent::Link(target)) => Some(target.clone()),
                _ => None,
            })
        })
    }

    pub(super) fn get_metadata(&self, at: &Path) -> Option<FileMetadata> {
        self.nodes.get(at).map(|node| FileMetadata {
            kind: match node.content {
                FakeNodeContent::File(_) => FileEntryKind::File,
                FakeNodeContent::Directory => FileEntryKind::Directory,
                FakeNodeContent::Link(_) => FileEntryKind::Link,
            },
            mode: node.mode,
            uid: node.uid,
            gid: node.gid,
            size: match &node.content {
                FakeNodeContent::File(bytes) => bytes.len() as u64,
                FakeNodeContent::Directory => 0,
                FakeNodeContent::Link(target) => target.as_os_str().len() as u64,
            },
            modified: node.modified,
            accessed: node.modified,
            changed: node.changed,
            inode: node.inode,
        })
    }

    pub(super) fn get_content(&self, at: &Path) -> io::Result<&FakeNodeContent> {
        self.nodes
            .get(at)
            .map(|node| &node.content)
            .ok_or_else(|| Errno::ENOENT.into())
    }

    pub(super) fn list_names(&self, at: &Path) -> io::Result<Vec<String>> {
        match self.get_content(at)? {
            FakeNodeContent::Directory => Ok(self
                .nodes
                .keys()
                .filter(|path| path.parent() == Some(at))
                .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
                .collect()),
            _ => Err(Errno::ENOTDIR.into()),
        }
    }

    /// Creates a file, directory or link; attributes not given are taken from the previous node, then from the default.
    pub(super) fn put_node(
        &mut self,
        at: &Path,
        content: FakeNodeContent,
        attributes: &FileAttributes,
        now: SystemTime,
    ) -> io::Result<()> {
        self.parent_is_directory(at)?;
        let old = self.nodes.get(at);
        let default = match content {
            FakeNodeContent::File(_) => 0o644,
            FakeNodeContent::Directory => 0o755,
            FakeNodeContent::Link(_) => 0o777,
        };
        let node = FakeTreeNode {
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

    pub(super) fn set_attributes(
        &mut self,
        at: &Path,
        attributes: &FileAttributes,
        now: SystemTime,
    ) -> io::Result<()> {
        let node = self.nodes.get_mut(at).ok_or(Errno::ENOENT)?;
        node.changed = now;
        if !matches!(node.content, FakeNodeContent::Link(_)) {
            node.mode = attributes.mode.unwrap_or(node.mode) & 0o7777;
        }
        node.uid = attributes.uid.unwrap_or(node.uid);
        node.gid = attributes.gid.unwrap_or(node.gid);
        Ok(())
    }

    pub(super) fn remove_file(&mut self, at: &Path) -> io::Result<()> {
        if let Some(FakeTreeNode {
            content: FakeNodeContent::Directory,
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

    pub(super) fn rename_node(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.parent_is_directory(to)?;
        let from_directory = matches!(self.get_content(from)?, FakeNodeContent::Directory);
        if to != from && to.starts_with(from) {
            return Err(Errno::EINVAL.into());
        }
        match (from_directory, self.get_content(to)) {
            (false, Ok(FakeNodeContent::Directory)) => return Err(Errno::EISDIR.into()),
            (true, Ok(FakeNodeContent::File(_) | FakeNodeContent::Link(_))) => {
                return Err(Errno::ENOTDIR.into());
            }
            (true, Ok(FakeNodeContent::Directory))
                if from != to && !self.list_names(to)?.is_empty() =>
            {
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
        match self.get_content(parent)? {
            FakeNodeContent::Directory => Ok(()),
            _ => Err(Errno::ENOTDIR.into()),
        }
    }
}
