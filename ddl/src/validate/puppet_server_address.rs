//! Host and port of a Puppet server: `name`, `name:port`, an IP address, `ipv4:port` or
//! `[ipv6]:port`.

use std::net::{Ipv4Addr, Ipv6Addr};

pub(super) const REQUIREMENT: &str = "a host name or address, optionally with :PORT";

pub(super) fn is_puppet_server_address(text: &str) -> bool {
    if text.parse::<Ipv6Addr>().is_ok() {
        return true;
    }
    match text.rsplit_once(':') {
        Some((host, port)) => {
            let bracketed = host
                .strip_prefix('[')
                .and_then(|host| host.strip_suffix(']'));
            let host_accepted = match bracketed {
                Some(address) => address.parse::<Ipv6Addr>().is_ok(),
                None => is_host(host),
            };
            host_accepted && is_port(port)
        }
        None => is_host(text),
    }
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok_and(|port| port > 0)
}

/// An IPv4 address, or labels of which the last is not a number, so that `300.1.1.1` is refused.
fn is_host(text: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let last = text.rsplit('.').next().unwrap_or_default();
    let is_numeric = last.bytes().all(|byte| byte.is_ascii_digit());
    text.parse::<Ipv4Addr>().is_ok() || (!is_numeric && text.split('.').all(is_label))
}
