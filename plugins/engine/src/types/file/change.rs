//! Makes the changes of a `file`. What is replaced is kept first where a backup is asked for.

use std::path::{Path, PathBuf};

use muster_system::{Attributes, Command, FileKind};

use super::{backup, mode, read, source};
use crate::error::EngineError;
use crate::plan::{Change, Plan, State};
use crate::providers::{bucket, digest, names, paths};
use crate::resource::{Resource, Value};
use crate::resource_type::Cx;

/// A change in the making: whose, and where.
struct Work<'a> {
    cx: &'a Cx<'a>,
    resource: &'a Resource,
    state: &'a State,
    path: PathBuf,
}

/// Makes one change.
pub(super) fn apply(cx: &Cx<'_>, plan: &Plan, change: &Change) -> Result<(), EngineError> {
    let resource = &plan.resource;
    let failing = || EngineError::during(resource, format!("changing {}", resource.name));
    let work = Work {
        cx,
        resource,
        state: &plan.state,
        path: read::place(cx, resource).map_err(failing())?,
    };
    match (change.property.as_str(), change.to.as_text()) {
        ("ensure", Some("absent")) => work.make_way(None),
        ("ensure", Some("directory")) => work.directory(),
        ("ensure", Some("link")) | ("target", _) => work.link(),
        ("ensure" | "content" | "checksum_value", _) => work.file(),
        (property, _) => {
            let all = work.attributes(None)?;
            let one = match property {
                "owner" => Attributes {
                    uid: all.uid,
                    ..Attributes::default()
                },
                "group" => Attributes {
                    gid: all.gid,
                    ..Attributes::default()
                },
                _ => Attributes {
                    mode: all.mode,
                    ..Attributes::default()
                },
            };
            cx.system
                .set_attributes(&work.path, &one)
                .map_err(failing())
        }
    }
}

impl Work<'_> {
    fn directory(&self) -> Result<(), EngineError> {
        self.make_way(Some(FileKind::Directory))?;
        self.has_parent()?;
        let attributes = self.attributes(Some((0o755, true)))?;
        self.cx
            .system
            .create_dir(&self.path, &attributes)
            .map_err(self.during("creating"))
    }

    fn link(&self) -> Result<(), EngineError> {
        self.make_way(Some(FileKind::Link))?;
        self.has_parent()?;
        let target = self.resource.text("target").unwrap_or_default();
        let owner = Attributes {
            mode: None,
            ..self.attributes(None)?
        };
        self.cx
            .system
            .symlink(Path::new(target), &self.path)
            .and_then(|()| self.cx.system.set_attributes(&self.path, &owner))
            .map_err(self.during("linking"))
    }

    /// Writes the desired content, or none, over whatever is there.
    fn file(&self) -> Result<(), EngineError> {
        let content = self.content()?;
        self.has_parent()?;
        self.validate(&content)?;
        self.make_way(Some(FileKind::File))?;
        let attributes = self.attributes(Some((0o644, false)))?;
        // What takes the place of another file is on the disk before it does; what is new, when everything is done.
        self.cx
            .system
            .write_new(&self.path, &content, &attributes)
            .map_err(self.during("writing"))?;
        self.cx
            .made_in(self.path.parent().unwrap_or(Path::new("/")));
        Ok(())
    }

    fn content(&self) -> Result<Vec<u8>, EngineError> {
        let resource = self.resource;
        let content = match resource.text("content") {
            Some(content) => match digest::parse(content) {
                Some((_, sum)) => self.kept(content, sum)?,
                None => content.as_bytes().to_vec(),
            },
            None if resource.get("source").is_some() => source::read(self.cx, resource)?,
            None => Vec::new(),
        };
        let demanded = read::demanded(resource)
            .filter(|_| resource.get("content").or(resource.get("source")).is_some());
        if let Some((digest, sum)) = demanded {
            let found = digest.of(&content);
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

    /// What a file bucket keeps under a checksum.
    fn kept(&self, content: &str, sum: &str) -> Result<Vec<u8>, EngineError> {
        let backup = self.resource.text("backup");
        let name = backup
            .filter(|name| *name != "false" && !name.starts_with('.'))
            .unwrap_or(bucket::ALWAYS);
        let directory = backup::bucket(self.cx, self.resource, name)?;
        let failing = EngineError::during(self.resource, format!("reading the filebucket {name}"));
        let found = bucket::fetch(self.cx.system, &directory, sum).map_err(failing)?;
        found.ok_or_else(|| {
            let problem = format!(
                "Could not retrieve content for {content} from filebucket: {name} does not have it"
            );
            EngineError::failed(self.resource, problem)
        })
    }

    /// Keeps a copy of what is there, and removes what is not of the kind that will take its place.
    fn make_way(&self, successor: Option<FileKind>) -> Result<(), EngineError> {
        let found = self.cx.system.metadata(&self.path);
        let Some(found) = found.map_err(self.during("looking at"))? else {
            return Ok(());
        };
        let stays = successor == Some(found.kind);
        if found.kind == FileKind::Directory && !stays && !self.resource.flag("force") {
            let problem = format!(
                "Not removing directory {}; use 'force' to override: `force => true` removes it with all that is in it",
                self.path.display()
            );
            return Err(EngineError::failed(self.resource, problem));
        }
        if !(stays && found.kind == FileKind::Directory) {
            backup::keep(self.cx, self.resource, &self.path, &found)?;
        }
        let removed = match found.kind {
            // A file is written over and a link replaced, at once.
            _ if stays => Ok(()),
            FileKind::Directory => self.cx.system.remove_tree(&self.path),
            _ => self.cx.system.remove_file(&self.path),
        };
        removed.map_err(self.during("removing"))
    }

    /// Lets the command judge the new content in a file that nobody else can read.
    fn validate(&self, content: &[u8]) -> Result<(), EngineError> {
        let resource = self.resource;
        let Some(line) = resource.text("validate_cmd") else {
            return Ok(());
        };
        let trial = resource.text("staging_location").map_or_else(
            || format!("{}.muster-validate", self.path.display()),
            str::to_owned,
        );
        let path = Path::new(&trial);
        let failing = || EngineError::during(resource, format!("trying the content in {trial}"));
        let private = Attributes {
            mode: Some(0o600),
            ..Attributes::default()
        };
        let system = self.cx.system;
        system.write(path, content, &private).map_err(failing())?;
        let place = resource.text("validate_replacement").unwrap_or("%");
        let line = line.replace(place, &format!("'{}'", trial.replace('\'', r"'\''")));
        let mut command = Command::new(["/bin/sh", "-c", &line]);
        command.cancel = self.cx.cancel.clone();
        let output = system.run(&command);
        system.remove_file(path).map_err(failing())?;
        let output = output.map_err(failing())?;
        if output.success() {
            return Ok(());
        }
        let problem = format!(
            "the new content is refused: Execution of '{line}' returned {}: {}",
            output.code,
            output.text().trim()
        );
        Err(EngineError::failed(resource, problem))
    }

    fn has_parent(&self) -> Result<(), EngineError> {
        let parent = self.path.parent().unwrap_or(Path::new("/"));
        let failing =
            EngineError::during(self.resource, format!("looking at {}", parent.display()));
        let problem = match paths::follow(self.cx.system, parent).map_err(failing)? {
            Some(found) if found.kind == FileKind::Directory => return Ok(()),
            Some(_) => format!("{} is not a directory", parent.display()),
            None => format!(
                "Cannot create {}; parent directory {} does not exist",
                self.path.display(),
                parent.display()
            ),
        };
        Err(EngineError::failed(self.resource, problem))
    }

    /// Mode, owner and group as desired, names looked up. A symbolic mode starts from `fresh`, the mode of a new file and
    /// whether it is a directory, unless what is there stays.
    fn attributes(&self, fresh: Option<(u32, bool)>) -> Result<Attributes, EngineError> {
        let text = |name| self.state.get(name).and_then(Value::as_text);
        let found = text("mode").and_then(|mode| u32::from_str_radix(mode, 8).ok());
        let kind = text("ensure");
        let (current, directory) = match (fresh, found) {
            (Some((_, false)), Some(found)) if kind == Some("file") => (found, false),
            (Some(fresh), _) => fresh,
            (None, found) => (found.unwrap_or(0o644), kind == Some("directory")),
        };
        let unknown = |what: &str, who: &str| {
            EngineError::failed(self.resource, format!("Could not find {what} {who}"))
        };
        let mut attributes = Attributes {
            mode: self
                .resource
                .text("mode")
                .and_then(|mode| mode::bits(mode, current, directory)),
            ..Attributes::default()
        };
        if let Some(owner) = self.resource.text("owner") {
            let looking = EngineError::during(self.resource, "looking the owner up");
            let uid = names::uid(self.cx, owner).map_err(looking)?;
            attributes.uid = Some(uid.ok_or_else(|| unknown("user", owner))?);
        }
        if let Some(group) = self.resource.text("group") {
            let looking = EngineError::during(self.resource, "looking the group up");
            let gid = names::gid(self.cx, group).map_err(looking)?;
            attributes.gid = Some(gid.ok_or_else(|| unknown("group", group))?);
        }
        Ok(attributes)
    }

    fn during(&self, doing: &str) -> impl FnOnce(muster_system::SystemError) -> EngineError {
        EngineError::during(self.resource, format!("{doing} {}", self.path.display()))
    }
}
