//! Edits the hosts file: adds or replaces the managed lines of the Puppet server, and keeps all other lines. Pure.

use std::net::IpAddr;

const MANAGED_COMMENT: &str = "# managed by rpc provision";

/// Managed line for a name at an address, without newline.
fn format_line(address: IpAddr, host: &str) -> String {
    format!("{address}\t{host}\t{MANAGED_COMMENT}")
}

/// Returns the file with the managed lines for this name, one per address, and these lines. All other bytes are unchanged.
///
/// The managed lines are placed before the first unmanaged line with this name, because the first match counts.
pub(crate) fn edit_hosts(file: &[u8], host: &str, addresses: &[IpAddr]) -> (Vec<u8>, Vec<String>) {
    let managed_lines: Vec<String> =
        addresses.iter().map(|address| format_line(*address, host)).collect();
    let block: Vec<u8> =
        managed_lines.iter().flat_map(|line| format!("{line}\n").into_bytes()).collect();
    let mut edited = Vec::with_capacity(file.len() + block.len());
    let mut is_written = false;
    for line in file.split_inclusive(|byte| *byte == b'\n') {
        let text = String::from_utf8_lossy(line);
        let names = host_names(&text);
        if !names.contains(&host) {
            edited.extend_from_slice(line);
            continue;
        }
        if !is_written {
            edited.extend_from_slice(&block);
            is_written = true;
        }
        if !is_managed_line(&text) {
            edited.extend_from_slice(line);
        }
    }
    if !is_written {
        if edited.last().is_some_and(|byte| *byte != b'\n') {
            edited.push(b'\n');
        }
        edited.extend_from_slice(&block);
    }
    (edited, managed_lines)
}

fn is_managed_line(line: &str) -> bool {
    line.trim_end().ends_with(MANAGED_COMMENT)
}

fn host_names(line: &str) -> Vec<&str> {
    let plain = line.split('#').next().unwrap_or_default();
    plain.split_whitespace().skip(1).collect()
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use proptest::prelude::*;

    use super::{MANAGED_COMMENT, edit_hosts};

    const FILE: &str = "127.0.0.1 localhost\n# puppet lives here\n10.0.0.9 puppetdb.acme.net puppetdb\n\n::1 localhost ip6-localhost\n";

    fn edited(file: &str, addresses: &[&str]) -> String {
        let addresses: Vec<IpAddr> = addresses.iter().map(|one| one.parse().unwrap()).collect();
        let (bytes, lines) = edit_hosts(file.as_bytes(), "puppet", &addresses);
        assert_eq!(lines.len(), addresses.len());
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn changes_only_managed_lines() {
        let once = edited(FILE, &["192.0.2.10"]);
        assert_eq!(once, format!("{FILE}192.0.2.10\tpuppet\t{MANAGED_COMMENT}\n"));
        assert_eq!(edited(&once, &["192.0.2.10"]), once);
        let both = edited(&once, &["192.0.2.11", "2001:db8::1"]);
        assert_eq!(
            both,
            format!(
                "{FILE}192.0.2.11\tpuppet\t{MANAGED_COMMENT}\n2001:db8::1\tpuppet\t{MANAGED_COMMENT}\n"
            )
        );
        // An address family without an address loses its line.
        assert_eq!(edited(&both, &["192.0.2.10"]), once);
    }

    #[test]
    fn keeps_foreign_lines_and_inserts_the_managed_line_before_them() {
        let file = "127.0.0.1 localhost\n10.0.0.1 puppet salt # by hand\n";
        assert_eq!(
            edited(file, &["192.0.2.10"]),
            format!(
                "127.0.0.1 localhost\n192.0.2.10\tpuppet\t{MANAGED_COMMENT}\n10.0.0.1 puppet salt # by hand\n"
            )
        );
        assert_eq!(
            edited("10.0.0.1 x", &["::1"]),
            format!("10.0.0.1 x\n::1\tpuppet\t{MANAGED_COMMENT}\n")
        );
        assert_eq!(edited("", &["::1"]), format!("::1\tpuppet\t{MANAGED_COMMENT}\n"));
    }

    proptest! {
        #[test]
        fn editing_is_idempotent_and_keeps_other_lines(
            file in proptest::collection::vec(
                prop_oneof!["[ -~\\t]{0,30}", Just("10.1.1.1 puppet".to_owned()), Just(format!("1.1.1.1\tpuppet\t{MANAGED_COMMENT}"))],
                0..8,
            ),
            v4 in any::<[u8; 4]>(),
        ) {
            let file = file.join("\n");
            let address = [IpAddr::from(v4)];
            let (once, _) = edit_hosts(file.as_bytes(), "puppet", &address);
            let (twice, _) = edit_hosts(&once, "puppet", &address);
            prop_assert_eq!(&once, &twice);
            let others = |bytes: &[u8]| -> Vec<String> {
                let text = String::from_utf8_lossy(bytes).into_owned();
                text.lines().filter(|line| !line.ends_with(MANAGED_COMMENT)).map(str::to_owned).collect()
            };
            prop_assert_eq!(others(file.as_bytes()), others(&once));
        }
    }
}
