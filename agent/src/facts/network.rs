//! The fact `networking`: names, the interfaces' addresses, and those of the interface of the default route.

use std::fs;
use std::net::IpAddr;

use serde_json::{Map, Value, json};
use sysinfo::Networks;

use super::hostname::HostName;

/// Reads the kernel's interfaces and routes.
pub(super) fn collect_networking(names: &HostName) -> Value {
    let mut interfaces = Map::new();
    if let Ok(networks) = Networks::new_with_refreshed_list() {
        for (name, data) in &networks {
            let mac = data.mac_address();
            let mac = (!mac.is_unspecified()).then(|| mac.to_string());
            let addresses: Vec<(IpAddr, u8)> =
                data.ip_networks().iter().map(|network| (network.addr, network.prefix)).collect();
            interfaces.insert(
                name.to_string_lossy().into_owned(),
                interface_facts(mac, data.mtu(), &addresses),
            );
        }
    }
    let routes = fs::read_to_string("/proc/net/route").unwrap_or_default();
    networking_facts(names, interfaces, default_interface(&routes))
}

/// The facts of one interface. Link-local addresses are used only if there is no other.
fn interface_facts(mac: Option<String>, mtu: u64, addresses: &[(IpAddr, u8)]) -> Value {
    let mut facts = Map::new();
    facts.extend(mac.map(|mac| ("mac".to_owned(), json!(mac))));
    facts.insert("mtu".to_owned(), json!(mtu));
    let mut best: Vec<&(IpAddr, u8)> = addresses.iter().collect();
    best.sort_by_key(|(address, _)| match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    });
    if let Some((v4, prefix)) = best.iter().find(|(address, _)| address.is_ipv4()) {
        facts.insert("ip".to_owned(), json!(v4));
        facts.insert("cidr".to_owned(), json!(format!("{v4}/{prefix}")));
    }
    if let Some((v6, _)) = best.iter().find(|(address, _)| address.is_ipv6()) {
        facts.insert("ip6".to_owned(), json!(v6));
    }
    Value::Object(facts)
}

/// The interface of the default route with the lowest metric, from `/proc/net/route`.
fn default_interface(routes: &str) -> Option<String> {
    let default = |line: &str| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        match columns.as_slice() {
            [name, "00000000", _, _, _, _, metric, "00000000", ..] => {
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
    default: Option<String>,
) -> Value {
    let mut facts = Map::new();
    facts.insert("hostname".to_owned(), json!(names.hostname));
    facts.insert("fqdn".to_owned(), json!(names.fqdn()));
    facts.extend(names.domain.as_ref().map(|domain| ("domain".to_owned(), json!(domain))));
    let has_address = |name: &&String| *name != "lo" && interfaces.get(*name).is_some_and(has_ip);
    let primary = default.or_else(|| interfaces.keys().find(has_address).cloned());
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

fn has_ip(interface: &Value) -> bool {
    interface.get("ip").or_else(|| interface.get("ip6")).is_some()
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::{default_interface, interface_facts, networking_facts};
    use crate::facts::hostname::HostName;

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
            1500,
            &[address("fe80::1"), address("10.0.0.5"), address("2001:db8::5")],
        );
        let lo = interface_facts(None, 65_536, &[address("127.0.0.1")]);
        let interfaces: Map<_, _> =
            [("eth0".into(), eth0), ("lo".into(), lo)].into_iter().collect();
        for default in [Some("eth0".to_owned()), None] {
            let facts = networking_facts(&names, interfaces.clone(), default);
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
