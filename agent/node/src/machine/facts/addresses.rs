//! The addresses of the interfaces in the kernel's order, in which the first address of a network comes before those added later.
//!
//! Asks the kernel over a netlink socket (`rtnetlink(7)`), because no file of `/proc` has the order. Choosing an address is left to the caller.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::net::{netdevice, recv, send, socket_with};

/// Constants of `rtnetlink(7)`.
const RTM_NEWADDR: u16 = 20;
const RTM_GETADDR: u16 = 22;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST_DUMP: u16 = 0x301;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_LABEL: u16 = 3;
const FAMILY_V4: u8 = 2;
const FAMILY_V6: u8 = 10;
/// Sizes of the headers, in bytes.
const MESSAGE_HEADER: usize = 16;
const ADDRESS_HEADER: usize = 8;
const ATTRIBUTE_HEADER: usize = 4;
/// Size of one read, in bytes: the kernel's dumps come in parts of at most 32 KiB.
const BUFFER_BYTES: usize = 64 * 1024;
/// Maximum number of parts that are read.
const MAX_PARTS: usize = 1000;
/// How long a part may take; the kernel replies at once.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InterfaceAddress {
    /// The interface, or the label of an IPv4 address such as `eth0:1`.
    pub(super) interface: String,
    pub(super) address: IpAddr,
    pub(super) prefix: u8,
}

/// An address as the kernel reports it.
#[derive(Debug, PartialEq, Eq)]
struct ReportedAddress {
    index: u32,
    label: Option<String>,
    address: IpAddr,
    prefix: u8,
}

/// All addresses of the network namespace of the calling thread.
pub(super) fn list_addresses() -> io::Result<Vec<InterfaceAddress>> {
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&socket, Timeout::Recv, Some(REPLY_TIMEOUT))?;
    send(&socket, &dump_request(), SendFlags::empty())?;
    let mut reported = Vec::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    for _ in 0..MAX_PARTS {
        let (length, _) = recv(&socket, buffer.as_mut_slice(), RecvFlags::empty())?;
        let part = buffer.get(..length).unwrap_or_default();
        if parse_part(part, &mut reported)? {
            break;
        }
    }
    Ok(reported.into_iter().filter_map(|address| name_address(&socket, address)).collect())
}

fn name_address(socket: &OwnedFd, reported: ReportedAddress) -> Option<InterfaceAddress> {
    let ReportedAddress { index, label, address, prefix } = reported;
    // The interface may have been removed meanwhile.
    let interface = label.or_else(|| netdevice::index_to_name(socket, index).ok())?;
    Some(InterfaceAddress { interface, address, prefix })
}

/// The request for all addresses of both families.
fn dump_request() -> Vec<u8> {
    let length = MESSAGE_HEADER + ADDRESS_HEADER;
    let mut request = u32::try_from(length).unwrap_or_default().to_ne_bytes().to_vec();
    request.extend(RTM_GETADDR.to_ne_bytes());
    request.extend(NLM_F_REQUEST_DUMP.to_ne_bytes());
    request.resize(length, 0);
    request
}

/// Adds the addresses of one part of the reply; returns whether it was the last one.
fn parse_part(part: &[u8], reported: &mut Vec<ReportedAddress>) -> io::Result<bool> {
    let mut rest = part;
    while let Some(length) = read_u32(rest, 0).and_then(|length| usize::try_from(length).ok()) {
        let Some(message) = rest.get(..length).filter(|_| length >= MESSAGE_HEADER) else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "truncated netlink message"));
        };
        match read_u16(message, 4) {
            Some(NLMSG_DONE) => return Ok(true),
            Some(NLMSG_ERROR) => return Err(io::Error::other("the kernel refused the request")),
            Some(RTM_NEWADDR) => {
                reported.extend(message.get(MESSAGE_HEADER..).and_then(parse_address));
            }
            _ => {}
        }
        rest = rest.get(aligned(length)..).unwrap_or_default();
    }
    Ok(false)
}

fn parse_address(body: &[u8]) -> Option<ReportedAddress> {
    let (family, prefix) = (*body.first()?, *body.get(1)?);
    let index = read_u32(body, 4)?;
    let (mut label, mut peer, mut local) = (None, None, None);
    let mut rest = body.get(ADDRESS_HEADER..)?;
    while let Some(length) = read_u16(rest, 0).map(usize::from) {
        let value = rest.get(ATTRIBUTE_HEADER..length)?;
        match read_u16(rest, 2)? {
            IFA_ADDRESS => peer = read_ip(family, value),
            IFA_LOCAL => local = read_ip(family, value),
            IFA_LABEL => {
                let text = value.split(|byte| *byte == 0).next().unwrap_or_default();
                label = Some(String::from_utf8_lossy(text).into_owned());
            }
            _ => {}
        }
        rest = rest.get(aligned(length)..).unwrap_or_default();
    }
    // On a point-to-point interface the other attribute is the peer's address.
    Some(ReportedAddress { index, label, address: local.or(peer)?, prefix })
}

fn read_ip(family: u8, value: &[u8]) -> Option<IpAddr> {
    match family {
        FAMILY_V4 => Some(IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(value).ok()?))),
        FAMILY_V6 => Some(IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(value).ok()?))),
        _ => None,
    }
}

/// Messages and attributes begin at multiples of four bytes.
fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes)
}

fn read_u16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use muster_system::real::RealSystem;
    use muster_system::{Command, System as _};

    use super::{InterfaceAddress, ReportedAddress, list_addresses, parse_part};

    /// A message with one address and its label.
    fn message(kind: u16) -> Vec<u8> {
        let mut body = vec![2, 24, 0, 0];
        body.extend(7_u32.to_ne_bytes());
        for (kind, value) in [(1_u16, &[10, 0, 0, 9][..]), (2, &[10, 0, 0, 5]), (3, b"eth0\0")] {
            body.extend(u16::try_from(value.len() + 4).unwrap().to_ne_bytes());
            body.extend(kind.to_ne_bytes());
            body.extend(value);
            body.resize(body.len().next_multiple_of(4), 0);
        }
        let mut message = u32::try_from(body.len() + 16).unwrap().to_ne_bytes().to_vec();
        message.extend(kind.to_ne_bytes());
        message.resize(16, 0);
        message.extend(body);
        message
    }

    #[test]
    fn address_is_the_local_one_with_its_label() {
        let (mut reported, mut part) = (Vec::new(), message(20));
        assert!(!parse_part(&part, &mut reported).unwrap());
        let expected = ReportedAddress {
            index: 7,
            label: Some("eth0".to_owned()),
            address: "10.0.0.5".parse().unwrap(),
            prefix: 24,
        };
        assert_eq!(reported, [expected]);
        part.extend(message(3));
        assert!(parse_part(&part, &mut reported).unwrap());
        assert!(parse_part(&message(2), &mut reported).is_err());
    }

    #[test]
    fn damaged_messages_neither_panic_nor_loop() {
        let whole = message(20);
        for length in 0..whole.len() {
            let mut reported = Vec::new();
            drop(parse_part(&whole[..length], &mut reported));
            assert!(reported.is_empty());
            let mut damaged = whole.clone();
            for value in [0, 1, 0xff] {
                damaged[length] = value;
                drop(parse_part(&damaged, &mut reported));
            }
        }
    }

    /// The addresses of one interface, in order.
    fn addresses_of(interface: &str) -> Vec<String> {
        let all = list_addresses().unwrap().into_iter();
        let of_interface = all.filter(|found| found.interface == interface);
        of_interface
            .map(|InterfaceAddress { address, prefix, .. }| format!("{address}/{prefix}"))
            .collect()
    }

    #[test]
    fn addresses_added_later_come_later() {
        if !nix::unistd::geteuid().is_root() {
            // Only root may make a network namespace; everyone has the loopback interface.
            assert_eq!(addresses_of("lo").first().map(String::as_str), Some("127.0.0.1/8"));
            return;
        }
        // A network namespace belongs to its thread.
        let in_namespace = || {
            nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
            let ip = |line: &str| {
                let command = Command::new(["ip"].into_iter().chain(line.split(' ')));
                let done = RealSystem::new("/".into()).run_command(&command).unwrap();
                assert!(done.is_success(), "ip {line}: {}", done.combined_text());
            };
            let mut expected = Vec::new();
            for number in [9, 2, 7, 1, 8, 3] {
                let address = format!("10.91.{number}.5/24");
                ip(&format!("address add {address} dev lo"));
                expected.push(address);
                assert_eq!(addresses_of("lo"), expected);
            }
        };
        std::thread::spawn(in_namespace).join().unwrap();
    }
}
