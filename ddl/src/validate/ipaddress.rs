//! An address of either version of IP.

use std::net::IpAddr;

pub(super) const REQUIREMENT: &str = "an IPv4 or IPv6 address";

pub(super) fn is_ip_address(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
}
