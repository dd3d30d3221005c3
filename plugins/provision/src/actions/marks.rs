//! `disable`, `is_disabled`, `release`, `reprovision`: whether the node is done.

use std::sync::Arc;

use muster_api::{Action, ActionError, Context};
use serde::{Deserialize, Serialize};

use super::{Fenced, Nothing};
use crate::desk::Desk;
use crate::puppet::failed;

/// What `wipe` removes, by the names of Puppet's settings.
const SECRETS: [&str; 6] = [
    "hostprivkey",
    "hostpubkey",
    "hostcsr",
    "hostcert",
    "localcacert",
    "hostcrl",
];

pub(crate) struct Disable(pub(crate) Arc<Desk>);
pub(crate) struct IsDisabled(pub(crate) Arc<Desk>);
pub(crate) struct Release(pub(crate) Arc<Desk>);
pub(crate) struct Reprovision(pub(crate) Arc<Desk>);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Anew {
    wipe: bool,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct Done {
    disabled: bool,
    changed: bool,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct Marks {
    disabled: bool,
    provisioning: bool,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct Begun {
    changed: bool,
    wiped: Vec<String>,
}

async fn finish(
    desk: &Arc<Desk>,
    cx: &Context,
    fence: Option<u64>,
    unlock: bool,
) -> Result<Done, ActionError> {
    desk.look(cx, move |desk, cx, _| {
        let changed = desk.hold.finish(fence, unlock, cx.system.now())?;
        Ok(Done {
            disabled: true,
            changed,
        })
    })
    .await
}

impl Action for Disable {
    const NAME: &'static str = "disable";
    type Input = Fenced;
    type Output = Done;

    async fn run(&self, cx: &Context, input: Fenced) -> Result<Done, ActionError> {
        finish(&self.0, cx, input.fence, false).await
    }
}

impl Action for Release {
    const NAME: &'static str = "release";
    type Input = Fenced;
    type Output = Done;

    async fn run(&self, cx: &Context, input: Fenced) -> Result<Done, ActionError> {
        finish(&self.0, cx, input.fence, true).await
    }
}

impl Action for IsDisabled {
    const NAME: &'static str = "is_disabled";
    type Input = Nothing;
    type Output = Marks;

    async fn run(&self, cx: &Context, _: Nothing) -> Result<Marks, ActionError> {
        self.0
            .look(cx, |desk, _, _| {
                let (disabled, provisioning) = desk.hold.marks();
                Ok(Marks {
                    disabled,
                    provisioning,
                })
            })
            .await
    }
}

impl Action for Reprovision {
    const NAME: &'static str = "reprovision";
    type Input = Anew;
    type Output = Begun;

    async fn run(&self, cx: &Context, input: Anew) -> Result<Begun, ActionError> {
        self.0
            .look(cx, move |desk, cx, cancel| {
                let mut wiped = Vec::new();
                if input.wipe {
                    let puppet = desk.puppet(cx, cancel, desk.options.request_timeout);
                    let places = puppet.places()?;
                    for setting in SECRETS {
                        let path = places.path(setting);
                        let is_there = cx.system.metadata(&path).map_err(|error| failed(&error))?;
                        cx.system
                            .remove_file(&path)
                            .map_err(|error| failed(&error))?;
                        if is_there.is_some() {
                            wiped.push(path.display().to_string());
                        }
                    }
                }
                // Last: until then nobody begins with what is being removed.
                let begun = desk.hold.begin_anew()?;
                Ok(Begun {
                    changed: begun || !wiped.is_empty(),
                    wiped,
                })
            })
            .await
    }
}
