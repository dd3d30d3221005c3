//! `set_puppet_host`: writes the address of the Puppet server to the hosts file.

use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;
use std::sync::Arc;

use muster_api::system::{FileAttributes, System, SystemResult};
use muster_api::{ActionError, BlockingContext};
use muster_contract::provision::{SetPuppetHostInput, SetPuppetHostOutput};

use crate::hosts::edit_hosts;
use crate::step_context::StepContext;

const MAX_HOSTS_BYTES: u64 = 16 * 1024 * 1024;

pub(crate) fn set_puppet_host(
    context: &Arc<StepContext>,
    cx: &BlockingContext,
    SetPuppetHostInput { ipaddress, ipaddress6, host, noop, fence }: SetPuppetHostInput,
) -> Result<SetPuppetHostOutput, ActionError> {
    let mut addresses = vec![parse_address::<IpAddr>(&ipaddress)?];
    if let Some(second) = &ipaddress6 {
        let second = IpAddr::from(parse_address::<Ipv6Addr>(second)?);
        addresses.retain(|first| *first != second);
        addresses.push(second);
    }
    // Exclusive, so that no concurrent edit is lost, and no older provisioner edits after a newer one.
    let _guard = context.lock.admit_exclusive_step(fence, cx.system.now())?;
    let is_noop = noop == Some(true);
    Ok(write_hosts_file(&*cx.system, &context.options.hosts, &host, &addresses, is_noop)?)
}

fn parse_address<T: std::str::FromStr>(text: &str) -> Result<T, ActionError> {
    let parsed = text.parse();
    parsed.map_err(|_| {
        ActionError::invalid_input(format!(
            "`{}` is not a valid IP address for this input",
            text.escape_debug()
        ))
    })
}

fn write_hosts_file(
    system: &dyn System,
    path: &Path,
    host: &str,
    addresses: &[IpAddr],
    is_noop: bool,
) -> SystemResult<SetPuppetHostOutput> {
    let before = match system.read_file(path, MAX_HOSTS_BYTES) {
        Err(error) if error.is_not_found() => Vec::new(),
        read => read?,
    };
    let (after, lines) = edit_hosts(&before, host, addresses);
    let changed = after != before;
    if changed && !is_noop {
        system.write_file(path, &after, &FileAttributes::default())?;
    }
    Ok(SetPuppetHostOutput { changed, lines })
}
