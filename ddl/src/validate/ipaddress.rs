//! An IPv4 or IPv6 address.

use std::net::IpAddr;

pub(super) const REQUIREMENT: &str = "an IPv4 or IPv6 address";

pub(super) fn is_ip_address(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
}
