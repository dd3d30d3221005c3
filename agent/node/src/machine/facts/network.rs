//! The fact `networking`: names, the interfaces' addresses, and those of the interface of the default route.

use std::fs;
use std::net::IpAddr;

use serde_json::{Map, Value, json};
use sysinfo::Networks;

use super::addresses::{InterfaceAddress, list_addresses};
use super::hostname::HostName;

/// Reads the kernel's interfaces and routes.
pub(super) fn collect_networking(names: &HostName) -> Value {
    let addresses = list_addresses().unwrap_or_default();
    let mut interfaces = Map::new();
    for address in &addresses {
        // The label of an address, such as `eth0:1`, is an interface of its own, as for Facter.
        let label = address.interface.clone();
        interfaces.entry(label).or_insert_with(|| interface_facts(None, None, &[]));
    }
    if let Ok(networks) = Networks::new_with_refreshed_list() {
        for (name, data) in &networks {
            let mac = data.mac_address();
            let mac = (!mac.is_unspecified()).then(|| mac.to_string());
            let facts = interface_facts(mac, Some(data.mtu()), &[]);
            interfaces.insert(name.to_string_lossy().into_owned(), facts);
        }
    }
    for (name, facts) in &mut interfaces {
        let own = addresses.iter().filter(|address| address.interface == *name);
        let own: Vec<(IpAddr, u8)> = own.map(|found| (found.address, found.prefix)).collect();
        if let (Value::Object(facts), Value::Object(more)) =
            (facts, interface_facts(None, None, &own))
        {
            facts.extend(more);
        }
    }
    let routes = fs::read_to_string("/proc/net/route").unwrap_or_default();
    let primary = default_interface(&routes).or_else(|| first_reachable_interface(&addresses));
    networking_facts(names, interfaces, primary)
}

/// The facts of one interface. Its address is the first one that is not ignored, or else the first one, as for Facter. So an address that is added
/// later changes nothing.
fn interface_facts(mac: Option<String>, mtu: Option<u64>, addresses: &[(IpAddr, u8)]) -> Value {
    let mut facts = Map::new();
    facts.extend(mac.map(|mac| ("mac".to_owned(), json!(mac))));
    facts.extend(mtu.map(|mtu| ("mtu".to_owned(), json!(mtu))));
    let choose = |is_family: fn(&IpAddr) -> bool| {
        let of_family = || addresses.iter().filter(|(address, _)| is_family(address));
        of_family().find(|(address, _)| !is_ignored(address)).or_else(|| of_family().next())
    };
    if let Some((v4, prefix)) = choose(IpAddr::is_ipv4) {
        facts.insert("ip".to_owned(), json!(v4));
        facts.insert("cidr".to_owned(), json!(format!("{v4}/{prefix}")));
    }
    if let Some((v6, _)) = choose(IpAddr::is_ipv6) {
        facts.insert("ip6".to_owned(), json!(v6));
    }
    Value::Object(facts)
}

/// Loopback, link-local and unique local addresses.
fn is_ignored(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unicast_link_local() || v6.is_unique_local(),
    }
}

/// The first interface with an address that is not ignored.
fn first_reachable_interface(addresses: &[InterfaceAddress]) -> Option<String> {
    let reachable = addresses.iter().find(|found| !is_ignored(&found.address));
    reachable.map(|found| found.interface.clone())
}

/// The interface of the default route with the lowest metric, from `/proc/net/route`.
fn default_interface(routes: &str) -> Option<String> {
    let default = |line: &str| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        match columns.as_slice() {
            // `*`: packets are dropped.
            [name, "00000000", _, _, _, _, metric, "00000000", ..] if *name != "*" => {
                Some((metric.parse::<u32>().ok()?, (*name).to_owned()))
            }
            _ => None,
        }
    };
    routes.lines().filter_map(default).min_by_key(|(metric, _)| *metric).map(|(_, name)| name)
}

fn networking_facts(
    names: &HostName,
    interfaces: Map<String, Value>,
    primary: Option<String>,
) -> Value {
    let mut facts = Map::new();
    facts.insert("hostname".to_owned(), json!(names.hostname));
    facts.insert("fqdn".to_owned(), json!(names.fqdn()));
    facts.extend(names.domain.as_ref().map(|domain| ("domain".to_owned(), json!(domain))));
    if let Some(primary) = primary {
        for key in ["ip", "ip6", "mac", "mtu"] {
            let value = interfaces.get(&primary).and_then(|interface| interface.get(key));
            facts.extend(value.map(|value| (key.to_owned(), value.clone())));
        }
        facts.insert("primary".to_owned(), json!(primary));
    }
    facts.insert("interfaces".to_owned(), Value::Object(interfaces));
    Value::Object(facts)
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::{
        InterfaceAddress, default_interface, first_reachable_interface, interface_facts,
        networking_facts,
    };
    use crate::machine::facts::hostname::HostName;

    const ROUTES: &str = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n\
        wlan0\t00000000\t0101A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0\n\
        eth0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n\
        eth1\t00000A0A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";

    #[test]
    fn primary_interface_has_the_default_route_with_the_lowest_metric() {
        assert_eq!(default_interface(ROUTES).as_deref(), Some("eth0"));
        assert_eq!(default_interface(""), None);
    }

    #[test]
    fn top_level_addresses_are_those_of_the_primary_interface() {
        let names = HostName { hostname: "db1".into(), domain: Some("acme.net".into()) };
        let address = |text: &str| (text.parse().unwrap(), 24);
        let eth0 = interface_facts(
            Some("52:54:00:12:34:56".into()),
            Some(1500),
            &[
                address("169.254.3.4"),
                address("10.0.0.5"),
                address("10.0.0.4"),
                address("fe80::1"),
                address("fd00::5"),
                address("2001:db8::5"),
                address("2001:db8::4"),
            ],
        );
        let lo = interface_facts(None, Some(65_536), &[address("127.0.0.1")]);
        let interfaces: Map<_, _> =
            [("eth0".into(), eth0), ("lo".into(), lo)].into_iter().collect();
        let found = |interface: &str, text: &str| InterfaceAddress {
            interface: interface.to_owned(),
            address: text.parse().unwrap(),
            prefix: 24,
        };
        let listed =
            [found("lo", "127.0.0.1"), found("eth0", "10.0.0.5"), found("dummy", "10.9.9.9")];
        let without_route = first_reachable_interface(&listed);
        for primary in [Some("eth0".to_owned()), without_route] {
            let facts = networking_facts(&names, interfaces.clone(), primary);
            assert_eq!(facts["fqdn"], "db1.acme.net");
            assert_eq!(facts["ip"], "10.0.0.5");
            assert_eq!(facts["ip6"], "2001:db8::5");
            assert_eq!(facts["mac"], "52:54:00:12:34:56");
            assert_eq!(facts["primary"], "eth0");
            assert_eq!(
                facts["interfaces"]["lo"],
                json!({"mtu": 65_536, "ip": "127.0.0.1", "cidr": "127.0.0.1/24"})
            );
        }
    }
}
