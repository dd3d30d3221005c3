//! Services by scripts in `/etc/init.d`, started at boot through links in `/etc/rc?.d`; or, without a script, by the
//! commands that the resource gives.

use std::path::{Path, PathBuf};

use muster_system::SystemError;

use super::{Action, Service, Services, must, run};
use crate::error::EngineError;
use crate::providers::paths;
use crate::resource::Resource;
use crate::resource_type::Cx;

const SCRIPTS: &str = "/etc/init.d";
/// Run levels in which a service runs, and in which it is ended, as in Debian.
const START: [&str; 4] = ["2", "3", "4", "5"];
const KILL: [&str; 3] = ["0", "1", "6"];

/// The provider.
#[derive(Debug)]
pub struct Init;

impl Services for Init {
    fn query(&self, cx: &Cx<'_>, resource: &Resource) -> Result<Service, EngineError> {
        let script = script(resource);
        let failing = EngineError::during(resource, format!("looking at {script}"));
        let there = paths::follow(cx.system, Path::new(&script))
            .map_err(failing)?
            .is_some();
        let own = |name| resource.get(name).is_some();
        let commanded = (own("start") && own("stop")) || own("binary");
        let missing = !there && !commanded;
        let running = if let Some(line) = resource.text("status") {
            run(cx, resource, &["/bin/sh", "-c", line])?.success()
        } else if resource.text("hasstatus") == Some("false") || !there {
            !missing && in_process_table(cx, resource)?
        } else {
            run(cx, resource, &[&script, "status"])?.success()
        };
        let enabled = !links(cx, &resource.name, 'S')
            .map_err(EngineError::during(resource, "looking at /etc/rc?.d"))?
            .is_empty();
        Ok(Service {
            missing: missing
                .then(|| format!("an init script {script} (systemd does not run on this machine)")),
            running,
            enable: enabled.to_string(),
        })
    }

    fn act(&self, cx: &Cx<'_>, resource: &Resource, action: Action) -> Result<(), EngineError> {
        let own = |name: &str, verb: &str| match resource
            .text(name)
            .or(resource.text("binary").filter(|_| verb == "start"))
        {
            Some(line) => must(cx, resource, &["/bin/sh", "-c", line]),
            None => must(cx, resource, &[&script(resource), verb]),
        };
        match action {
            Action::Start => own("start", "start"),
            Action::Stop => own("stop", "stop"),
            Action::Restart
                if resource.get("restart").is_some()
                    || resource.text("hasrestart") == Some("true") =>
            {
                own("restart", "restart")
            }
            // As in Puppet, a script is not trusted to know `restart` unless the resource says so.
            Action::Restart => {
                own("stop", "stop")?;
                own("start", "start")
            }
            Action::Enable => enable(cx, resource, true),
            Action::Disable => enable(cx, resource, false),
            Action::Mask => Err(EngineError::failed(
                resource,
                "init scripts cannot be masked; use `enable=false`",
            )),
        }
    }

    fn names(&self, cx: &Cx<'_>, resource: &Resource) -> Result<Vec<String>, EngineError> {
        let names = match cx.system.read_dir(Path::new(SCRIPTS)) {
            Ok(names) => names,
            Err(error) if error.is_not_found() => Vec::new(),
            Err(error) => {
                return Err(EngineError::during(resource, format!("listing {SCRIPTS}"))(
                    error,
                ));
            }
        };
        // Files of the init system itself, and what is left of an upgrade.
        let other = |name: &String| {
            matches!(
                name.as_str(),
                "README" | "skeleton" | "rc" | "rcS" | "functions"
            ) || name.contains(".dpkg-")
                || name.starts_with('.')
        };
        Ok(names.into_iter().filter(|name| !other(name)).collect())
    }
}

fn script(resource: &Resource) -> String {
    format!("{SCRIPTS}/{}", resource.name)
}

/// Whether some process has the pattern in its command line.
fn in_process_table(cx: &Cx<'_>, resource: &Resource) -> Result<bool, EngineError> {
    let given = resource.text("pattern").or(resource.text("binary"));
    let pattern = given.unwrap_or(&resource.name);
    let pattern = regex::Regex::new(pattern).map_err(|error| {
        EngineError::invalid(
            resource,
            "pattern",
            format!("is no regular expression: {error}"),
        )
    })?;
    let output = run(cx, resource, &["ps", "-eo", "args="])?;
    Ok(output.success()
        && String::from_utf8_lossy(&output.stdout)
            .lines()
            .any(|line| pattern.is_match(line)))
}

/// The links of that letter to the service, in all run levels.
fn links(cx: &Cx<'_>, name: &str, letter: char) -> Result<Vec<PathBuf>, SystemError> {
    let mut links = Vec::new();
    for level in START.iter().chain(&KILL) {
        let directory = PathBuf::from(format!("/etc/rc{level}.d"));
        let entries = match cx.system.read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.is_not_found() => continue,
            Err(error) => return Err(error),
        };
        let is_link = |entry: &&String| {
            let rest = entry.strip_prefix(letter).unwrap_or_default();
            rest.strip_prefix(|c: char| c.is_ascii_digit())
                .and_then(|rest| rest.strip_prefix(|c: char| c.is_ascii_digit()))
                == Some(name)
        };
        links.extend(
            entries
                .iter()
                .filter(is_link)
                .map(|entry| directory.join(entry)),
        );
    }
    Ok(links)
}

/// `update-rc.d` knows the order in which services depend on each other; in a scratch root the links are made here.
fn enable(cx: &Cx<'_>, resource: &Resource, on: bool) -> Result<(), EngineError> {
    if cx.system.root() == Path::new("/") {
        must(cx, resource, &["update-rc.d", &resource.name, "defaults"])?;
        return must(
            cx,
            resource,
            &[
                "update-rc.d",
                &resource.name,
                if on { "enable" } else { "disable" },
            ],
        );
    }
    link(cx, &resource.name, on).map_err(EngineError::during(resource, "linking in /etc/rc?.d"))
}

fn link(cx: &Cx<'_>, name: &str, on: bool) -> Result<(), SystemError> {
    for letter in ['S', 'K'] {
        for path in links(cx, name, letter)? {
            cx.system.remove_file(&path)?;
        }
    }
    let target = format!("../init.d/{name}");
    let levels = START
        .iter()
        .map(|level| (level, on))
        .chain(KILL.iter().map(|level| (level, false)));
    for (level, start) in levels {
        let directory = PathBuf::from(format!("/etc/rc{level}.d"));
        paths::create_dirs(cx.system, &directory, &muster_system::Attributes::default())?;
        let letter = if start { 'S' } else { 'K' };
        cx.system.symlink(
            Path::new(&target),
            &directory.join(format!("{letter}01{name}")),
        )?;
    }
    Ok(())
}
