//! An IPv4 address in dotted decimal; leading zeros are refused, because some parsers read them as octal.

use std::net::Ipv4Addr;

pub(super) const REQUIREMENT: &str = "an IPv4 address";

pub(super) fn is_ipv4_address(text: &str) -> bool {
    text.parse::<Ipv4Addr>().is_ok()
}
