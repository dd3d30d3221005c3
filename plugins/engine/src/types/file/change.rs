//! Applies the changes of a `file`. Replaced content is backed up first if requested.

use std::path::{Path, PathBuf};

use muster_system::{Command, FileAttributes, FileEntryKind};

use super::{backup, mode, read, source};
use crate::error::{DescribeOperation as _, EngineError, Result};
use crate::plan::{PropertyChange, ResourcePlan, ResourceState};
use crate::providers::account_names::{self, IdLookup};
use crate::providers::{bucket, digest, paths};
use crate::resource_type::{BoundResource, ResourceContext};

struct FileChangeContext<'a> {
    resource: BoundResource<'a>,
    state: &'a ResourceState,
    path: PathBuf,
}

pub(super) fn desired_content(cx: &ResourceContext<'_>, plan: &ResourcePlan) -> Result<Vec<u8>> {
    FileChangeContext::new(cx, plan)?.desired_content()
}

pub(super) fn apply_change(
    cx: &ResourceContext<'_>,
    plan: &ResourcePlan,
    change: &PropertyChange,
) -> Result<()> {
    let resource = &plan.resource;
    let file_change = FileChangeContext::new(cx, plan)?;
    match (change.property.as_str(), change.to.as_text()) {
        ("ensure", Some("absent")) => file_change.clear_path(None),
        ("ensure", Some("directory")) => file_change.create_directory(),
        ("ensure", Some("link")) | ("target", _) => file_change.create_link(),
        ("ensure" | "content" | "checksum_value", _) => file_change.write_file(),
        (property, _) => {
            let desired = file_change.desired_attributes(None)?;
            let none = FileAttributes::default();
            let attributes = match property {
                "owner" => FileAttributes { uid: desired.uid, ..none },
                "group" => FileAttributes { gid: desired.gid, ..none },
                _ => FileAttributes { mode: desired.mode, ..none },
            };
            let doing = format_args!("changing {}", resource.name);
            cx.system.set_attributes(&file_change.path, &attributes).during(resource, doing)
        }
    }
}

impl<'a> FileChangeContext<'a> {
    fn new(cx: &'a ResourceContext<'a>, plan: &'a ResourcePlan) -> Result<Self> {
        let resource = cx.bind(&plan.resource);
        let doing = format_args!("changing {}", resource.name);
        let path = read::resolve_path(&resource).during(&resource, doing)?;
        Ok(Self { resource, state: &plan.state, path })
    }

    fn create_directory(&self) -> Result<()> {
        self.clear_path(Some(FileEntryKind::Directory))?;
        self.check_parent()?;
        let attributes = self.desired_attributes(Some((0o755, true)))?;
        self.resource
            .cx
            .system
            .create_dir(&self.path, &attributes)
            .map_err(self.error_during("creating"))
    }

    fn create_link(&self) -> Result<()> {
        self.clear_path(Some(FileEntryKind::Link))?;
        self.check_parent()?;
        let target = self.resource.get_text("target").unwrap_or_default();
        let owner = FileAttributes { mode: None, ..self.desired_attributes(None)? };
        self.resource
            .cx
            .system
            .create_symlink(Path::new(target), &self.path)
            .and_then(|()| self.resource.cx.system.set_attributes(&self.path, &owner))
            .map_err(self.error_during("linking"))
    }

    /// Replaces the path by a file with the desired content, or an empty one.
    fn write_file(&self) -> Result<()> {
        let content = self.desired_content()?;
        self.check_parent()?;
        self.validate_content(&content)?;
        self.clear_path(Some(FileEntryKind::File))?;
        let attributes = self.desired_attributes(Some((0o644, false)))?;
        // A replacement is synced before the rename; new files are synced together at the end.
        self.resource
            .cx
            .system
            .write_new(&self.path, &content, &attributes)
            .map_err(self.error_during("writing"))?;
        self.resource.cx.note_created_file(self.path.parent().unwrap_or(Path::new("/")));
        Ok(())
    }

    fn desired_content(&self) -> Result<Vec<u8>> {
        let resource = &self.resource;
        let content = match resource.get_text("content") {
            Some(content) => match digest::parse_checksum(content) {
                Some((_, sum)) => self.bucket_content(content, sum)?,
                None => content.as_bytes().to_vec(),
            },
            None if resource.get("source").is_some() => source::read_content(resource)?,
            None => Vec::new(),
        };
        let required = read::required_checksum(resource)
            .filter(|_| resource.get("content").or(resource.get("source")).is_some());
        if let Some((digest, sum)) = required {
            let found = digest.hex_checksum(&content);
            if found != sum {
                let kind = digest.name();
                let problem = format!(
                    "File written to disk did not match desired checksum; discarding changes ({{{kind}}}{found} vs {{{kind}}}{sum})"
                );
                return Err(EngineError::failed(resource, problem));
            }
        }
        Ok(content)
    }

    fn bucket_content(&self, content: &str, sum: &str) -> Result<Vec<u8>> {
        let backup = self.resource.get_text("backup");
        let name = backup
            .filter(|name| *name != "false" && !name.starts_with('.'))
            .unwrap_or(bucket::PREDECLARED_BUCKET);
        let directory = backup::bucket_directory(&self.resource, name)?;
        let found = bucket::fetch_content(self.resource.cx.system, &directory, sum)
            .during(&self.resource, format_args!("reading the filebucket {name}"))?;
        found.ok_or_else(|| {
            let problem = format!(
                "Could not retrieve content for {content} from filebucket: {name} does not have it"
            );
            EngineError::failed(&self.resource, problem)
        })
    }

    /// Backs up the current entry, and removes it if its kind differs from the new one.
    fn clear_path(&self, new_kind: Option<FileEntryKind>) -> Result<()> {
        let found = self.resource.cx.system.metadata(&self.path);
        let Some(found) = found.map_err(self.error_during("inspecting"))? else { return Ok(()) };
        let is_same_kind = new_kind == Some(found.kind);
        let is_directory = found.kind == FileEntryKind::Directory;
        if is_directory && !is_same_kind && !self.resource.get_flag("force") {
            let problem = format!(
                "Not removing directory {}; use 'force' to override: `force => true` removes it with its contents",
                self.path.display()
            );
            return Err(EngineError::failed(&self.resource, problem));
        }
        if !(is_same_kind && is_directory) {
            backup::back_up_entry(&self.resource, &self.path, &found)?;
        }
        let removed = match found.kind {
            // A file or link is replaced atomically.
            _ if is_same_kind => Ok(()),
            FileEntryKind::Directory => self.resource.cx.system.remove_tree(&self.path),
            _ => self.resource.cx.system.remove_file(&self.path),
        };
        removed.map_err(self.error_during("removing"))
    }

    /// Runs the validation command on the new content in a private file.
    fn validate_content(&self, content: &[u8]) -> Result<()> {
        let resource = &self.resource;
        let Some(line) = resource.get_text("validate_cmd") else { return Ok(()) };
        let default_path = format!("{}.muster-validate", self.path.display());
        let staging_path = resource.get_text("staging_location").unwrap_or(&default_path);
        let path = Path::new(staging_path);
        let doing = format_args!("validating content in {staging_path}");
        let attributes = FileAttributes::with_mode(0o600);
        let system = self.resource.cx.system;
        system.write_file(path, content, &attributes).during(resource, doing)?;
        let placeholder = resource.get_text("validate_replacement").unwrap_or("%");
        let line = line.replace(placeholder, &format!("'{}'", staging_path.replace('\'', r"'\''")));
        let mut command = Command::new(["/bin/sh", "-c", &line]);
        command.cancel = self.resource.cx.cancel.clone();
        let output = system.run_command(&command);
        system.remove_file(path).during(resource, doing)?;
        let output = output.during(resource, doing)?;
        if output.is_success() {
            return Ok(());
        }
        let execution = output.execution_text(&line);
        let problem = format!("`validate_cmd` rejected the new content: {execution}");
        Err(EngineError::failed(resource, problem))
    }

    fn check_parent(&self) -> Result<()> {
        let parent = self.path.parent().unwrap_or(Path::new("/"));
        let problem = match paths::follow_links(self.resource.cx.system, parent)
            .during(&self.resource, format_args!("inspecting {}", parent.display()))?
        {
            Some(found) if found.kind == FileEntryKind::Directory => return Ok(()),
            Some(_) => format!("{} is not a directory", parent.display()),
            None => format!(
                "Cannot create {}; parent directory {} does not exist",
                self.path.display(),
                parent.display()
            ),
        };
        Err(EngineError::failed(&self.resource, problem))
    }

    /// Desired mode, owner and group, with names resolved. A symbolic mode is applied to the existing entry, or to `new_file`, the mode of a new
    /// file and whether it is a directory.
    fn desired_attributes(&self, new_file: Option<(u32, bool)>) -> Result<FileAttributes> {
        let found = self.state.get_text("mode");
        let found = found.and_then(|mode| u32::from_str_radix(mode, 8).ok());
        let kind = self.state.get_text("ensure");
        let (current, directory) = match (new_file, found) {
            (Some((_, false)), Some(found)) if kind == Some("file") => (found, false),
            (Some(new_file), _) => new_file,
            (None, found) => (found.unwrap_or(0o644), kind == Some("directory")),
        };
        let mode = self.resource.get_text("mode");
        let mode = mode.and_then(|mode| mode::resolve_mode(mode, current, directory));
        let uid = self.lookup_id("owner", "user", account_names::resolve_uid)?;
        let gid = self.lookup_id("group", "group", account_names::resolve_gid)?;
        Ok(FileAttributes { mode, uid, gid })
    }

    fn lookup_id(&self, name: &str, kind: &str, resolve: IdLookup) -> Result<Option<u32>> {
        let Some(account) = self.resource.get_text(name) else { return Ok(None) };
        let id = resolve(self.resource.cx, account);
        let id = id.during(&self.resource, format_args!("looking up the {name}"))?;
        let problem = format!("Could not find {kind} {account}");
        id.map(Some).ok_or_else(|| EngineError::failed(&self.resource, problem))
    }

    fn error_during(
        &self,
        operation: &str,
    ) -> impl FnOnce(muster_system::SystemError) -> EngineError {
        move |source| {
            let operation = format_args!("{operation} {}", self.path.display());
            EngineError::system(&self.resource, operation, source)
        }
    }
}
