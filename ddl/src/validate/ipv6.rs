//! An IPv6 address, without a zone or a prefix length.

use std::net::Ipv6Addr;

pub(super) const REQUIREMENT: &str = "an IPv6 address";

pub(super) fn is_ipv6_address(text: &str) -> bool {
    text.parse::<Ipv6Addr>().is_ok()
}
