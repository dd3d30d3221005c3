//! `set_puppet_host`: says in the hosts file where the Puppet server is.

use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;
use std::sync::Arc;

use muster_api::system::{Attributes, System, SystemError};
use muster_api::{Action, ActionError, Context};
use serde::{Deserialize, Serialize};

use crate::desk::Desk;
use crate::hosts::edit;
use crate::puppet::failed;

/// Largest hosts file, in bytes.
const LARGEST: u64 = 16 * 1024 * 1024;

pub(crate) struct SetPuppetHost(pub(crate) Arc<Desk>);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Input {
    ipaddress: String,
    ipaddress6: Option<String>,
    host: String,
    fence: Option<u64>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    changed: bool,
    lines: Vec<String>,
}

impl Action for SetPuppetHost {
    const NAME: &'static str = "set_puppet_host";
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &Context, input: Input) -> Result<Output, ActionError> {
        let mut addresses = vec![address::<IpAddr>(&input.ipaddress)?];
        if let Some(second) = &input.ipaddress6 {
            let second = IpAddr::from(address::<Ipv6Addr>(second)?);
            addresses.retain(|first| *first != second);
            addresses.push(second);
        }
        self.0
            .step(cx, input.fence, move |desk, cx, _| {
                let path = &desk.options.hosts;
                // One at a time: of two edits none is lost.
                let _guard = desk.hold.open().map_err(|error| failed(&error))?;
                let wrote = write(&*cx.system, path, &input.host, &addresses);
                wrote.map_err(|error| failed(&error))
            })
            .await
    }
}

fn address<T: std::str::FromStr>(text: &str) -> Result<T, ActionError> {
    let parsed = text.parse();
    parsed
        .map_err(|_| ActionError::invalid(format!("`{}` is no such address", text.escape_debug())))
}

fn write(
    system: &dyn System,
    path: &Path,
    host: &str,
    addresses: &[IpAddr],
) -> Result<Output, SystemError> {
    let before = match system.read(path, LARGEST) {
        Err(error) if error.is_not_found() => Vec::new(),
        read => read?,
    };
    let (after, lines) = edit(&before, host, addresses);
    let changed = after != before;
    if changed {
        system.write(path, &after, &Attributes::default())?;
    }
    Ok(Output { changed, lines })
}
