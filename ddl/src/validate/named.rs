//! The validators that DDLs refer to by name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use super::duration::is_duration;

/// A validator: its name, what it accepts, and its requirement as in "must be ...".
pub(crate) type NamedValidator = (&'static str, fn(&str) -> bool, &'static str);

pub(super) static NAMED_VALIDATORS: [NamedValidator; 11] = [
    ("duration", is_duration, "a duration like 10s, 1h30m or 1.5d"),
    ("ipaddress", parses_as::<IpAddr>, "an IPv4 or IPv6 address"),
    ("ipv4", parses_as::<Ipv4Addr>, "an IPv4 address"),
    ("ipv4address", parses_as::<Ipv4Addr>, "an IPv4 address"),
    ("ipv6", parses_as::<Ipv6Addr>, "an IPv6 address"),
    ("ipv6address", parses_as::<Ipv6Addr>, "an IPv6 address"),
    (
        "puppet_server_address",
        is_puppet_server_address,
        "a host name or address, optionally with :PORT",
    ),
    ("puppet_tags", is_puppet_tags, "a comma separated list of tags like `web,mysql::server`"),
    ("puppet_variable", is_puppet_variable, "a name of letters, digits and _, not a single digit"),
    ("service_name", is_service_name, "a service name of letters, digits and . _ @ : -"),
    ("shellsafe", is_shell_safe, "text without the characters ` $ ; | & > < and line breaks"),
];

fn parses_as<T: FromStr>(text: &str) -> bool {
    text.parse::<T>().is_ok()
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
    if parses_as::<Ipv6Addr>(text) {
        return true;
    }
    match text.rsplit_once(':') {
        Some((host, port)) => {
            let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
            bracketed.map_or_else(|| is_host(host), parses_as::<Ipv6Addr>) && is_port(port)
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
    parses_as::<Ipv4Addr>(text) || (!is_numeric && text.split('.').all(is_label))
}
