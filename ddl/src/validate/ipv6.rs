//! An IPv6 address, without a zone or a prefix length.

use std::net::Ipv6Addr;

pub(super) const DEMANDS: &str = "an IPv6 address";

pub(super) fn accepts(text: &str) -> bool {
    text.parse::<Ipv6Addr>().is_ok()
}
