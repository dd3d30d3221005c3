//! The validators that DDLs refer to by name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::duration::is_duration;

/// A validator with a name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NamedValidator {
    pub(super) name: &'static str,
    /// Completes the sentence "the value must be ...".
    pub(super) requirement: &'static str,
    pub(super) accepts: fn(&str) -> bool,
}

impl NamedValidator {
    const fn new(name: &'static str, accepts: fn(&str) -> bool, requirement: &'static str) -> Self {
        Self { name, requirement, accepts }
    }
}

/// All named validators, including older names.
pub(super) static NAMED_VALIDATORS: [NamedValidator; 11] = [
    NamedValidator::new("duration", is_duration, "a duration like 10s, 1h30m or 1.5d"),
    NamedValidator::new("ipaddress", is_ip_address, "an IPv4 or IPv6 address"),
    NamedValidator::new("ipv4", is_ipv4_address, "an IPv4 address"),
    NamedValidator::new("ipv4address", is_ipv4_address, "an IPv4 address"),
    NamedValidator::new("ipv6", is_ipv6_address, "an IPv6 address"),
    NamedValidator::new("ipv6address", is_ipv6_address, "an IPv6 address"),
    NamedValidator::new(
        "puppet_server_address",
        is_puppet_server_address,
        "a host name or address, optionally with :PORT",
    ),
    NamedValidator::new(
        "puppet_tags",
        is_puppet_tags,
        "a comma separated list of tags like `web,mysql::server`",
    ),
    NamedValidator::new(
        "puppet_variable",
        is_puppet_variable,
        "a name of letters, digits and _, not a single digit",
    ),
    NamedValidator::new(
        "service_name",
        is_service_name,
        "a service name of letters, digits and . _ @ : -",
    ),
    NamedValidator::new(
        "shellsafe",
        is_shell_safe,
        "text without the characters ` $ ; | & > < and line breaks",
    ),
];

fn is_ip_address(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
}

/// Dotted decimal; leading zeros are refused, because some parsers read them as octal.
fn is_ipv4_address(text: &str) -> bool {
    text.parse::<Ipv4Addr>().is_ok()
}

/// Without a zone or a prefix length.
fn is_ipv6_address(text: &str) -> bool {
    text.parse::<Ipv6Addr>().is_ok()
}

/// Comma-separated tags; each is one or more names joined by `::`.
fn is_puppet_tags(text: &str) -> bool {
    text.split(',').flat_map(|tag| tag.split("::")).all(is_puppet_variable)
}

/// As the published `puppet` agent accepts it.
fn is_puppet_variable(text: &str) -> bool {
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        (None, _) => false,
        (Some(only), None) => only.is_ascii_alphabetic(),
        _ => text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'),
    }
}

/// As the published `service` agent accepts it.
fn is_service_name(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || ".-_@:".contains(c);
    // A leading dash would be parsed as an option by the command that receives the name.
    !text.is_empty() && !text.starts_with('-') && text.chars().all(allowed)
}

/// Text that a shell parses as at most one word of one command.
///
/// Refuses what `MCollective` refuses (`` ` $ ; | && > < ``), and in addition a single `&` and line breaks, which also separate
/// commands, and NUL, which ends an argument. It does not make building command lines from text safe: quotes and spaces
/// are accepted.
fn is_shell_safe(text: &str) -> bool {
    !text.contains(['`', '$', ';', '|', '&', '>', '<', '\n', '\r', '\0'])
}

/// `name`, `name:port`, an IP address, `ipv4:port` or `[ipv6]:port`.
fn is_puppet_server_address(text: &str) -> bool {
    if text.parse::<Ipv6Addr>().is_ok() {
        return true;
    }
    match text.rsplit_once(':') {
        Some((host, port)) => {
            let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
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
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let last = text.rsplit('.').next().unwrap_or_default();
    let is_numeric = last.bytes().all(|byte| byte.is_ascii_digit());
    text.parse::<Ipv4Addr>().is_ok() || (!is_numeric && text.split('.').all(is_label))
}
