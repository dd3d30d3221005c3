//! An address of either version of IP.

use std::net::IpAddr;

pub(super) const DEMANDS: &str = "an IPv4 or IPv6 address";

pub(super) fn accepts(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
}
