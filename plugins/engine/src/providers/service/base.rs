//! Services that nothing else knows: started, stopped and looked for by what the resource says. The least that is needed is
//! `binary`, which is also what its process is known by.

use super::{Action, Service, Services, must, run};
use crate::error::EngineError;
use crate::resource::Resource;
use crate::resource_type::Cx;

/// What stands in the place of a truth about starting at boot: nothing can be said or done about it.
const NO_BOOT: &str = "unmanaged";

/// The provider.
#[derive(Debug)]
pub struct Base;

impl Services for Base {
    fn query(&self, cx: &Cx<'_>, resource: &Resource) -> Result<Service, EngineError> {
        let running = match resource.text("status") {
            Some(line) => run(cx, resource, &["/bin/sh", "-c", line])?.success(),
            None => process(cx, resource)?.is_some(),
        };
        Ok(Service {
            missing: None,
            running,
            enable: NO_BOOT.to_owned(),
        })
    }

    fn act(&self, cx: &Cx<'_>, resource: &Resource, action: Action) -> Result<(), EngineError> {
        match action {
            Action::Start => match resource.text("start").or(resource.text("binary")) {
                Some(line) => must(cx, resource, &["/bin/sh", "-c", line]),
                None => Err(EngineError::failed(
                    resource,
                    "Services must specify a start command or a binary",
                )),
            },
            Action::Stop => match resource.text("stop") {
                Some(line) => must(cx, resource, &["/bin/sh", "-c", line]),
                None => match process(cx, resource)? {
                    Some(pid) => must(cx, resource, &["kill", &pid]),
                    None => Ok(()),
                },
            },
            Action::Restart => {
                if let Some(line) = resource.text("restart") {
                    return must(cx, resource, &["/bin/sh", "-c", line]);
                }
                self.act(cx, resource, Action::Stop)?;
                self.act(cx, resource, Action::Start)
            }
            Action::Enable | Action::Disable | Action::Mask => Err(EngineError::failed(
                resource,
                "the provider base does not know how services are started at boot",
            )),
        }
    }

    fn names(&self, _: &Cx<'_>, _: &Resource) -> Result<Vec<String>, EngineError> {
        Ok(Vec::new())
    }
}

/// The number of the first process whose line in the process table matches.
fn process(cx: &Cx<'_>, resource: &Resource) -> Result<Option<String>, EngineError> {
    let given = resource.text("pattern").or(resource.text("binary"));
    let pattern = given.unwrap_or(&resource.name);
    let pattern = regex::Regex::new(pattern).map_err(|error| {
        let problem = format!("is no regular expression: {error}");
        EngineError::invalid(resource, "pattern", problem)
    })?;
    let output = run(cx, resource, &["ps", "-eo", "pid=,args="])?;
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    let number = |line: &str| {
        let (pid, args) = line.trim_start().split_once(' ')?;
        pattern.is_match(args).then(|| pid.to_owned())
    };
    Ok(table.lines().find_map(number))
}
