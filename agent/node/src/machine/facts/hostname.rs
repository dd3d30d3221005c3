//! The machine's name and domain, from local files only: a DNS server that does not respond must not delay the start.

use std::fs::File;

const MAX_FILE_BYTES: u64 = 256 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostName {
    /// The first label: `db1`.
    pub hostname: String,
    /// The remaining labels, if known: `acme.net`.
    pub domain: Option<String>,
}

impl HostName {
    /// The full name, or the first label if the domain is unknown.
    pub fn fqdn(&self) -> String {
        match &self.domain {
            Some(domain) => format!("{}.{domain}", self.hostname),
            None => self.hostname.clone(),
        }
    }
}

/// Reads the kernel's host name, then `/etc/hosts`, then `/etc/resolv.conf`.
pub fn read_host_name() -> HostName {
    let kernel = nix::unistd::gethostname().unwrap_or_default();
    resolve_host_name(
        &kernel.to_string_lossy(),
        &read_prefix("/etc/hosts"),
        &read_prefix("/etc/resolv.conf"),
    )
}

/// The beginning of a file; empty if it cannot be read.
fn read_prefix(path: &str) -> String {
    let read = File::open(path).and_then(|file| muster_files::read_prefix(file, MAX_FILE_BYTES));
    String::from_utf8_lossy(&read.unwrap_or_default()).into_owned()
}

/// The kernel's name, with the domain from the name itself, from `/etc/hosts`, or the first search domain.
fn resolve_host_name(kernel: &str, hosts: &str, resolv: &str) -> HostName {
    let kernel = kernel.trim_end_matches('.').to_ascii_lowercase();
    if let Some((hostname, domain)) = kernel.split_once('.') {
        return HostName { hostname: hostname.to_owned(), domain: Some(domain.to_owned()) };
    }
    let domain = domain_in_hosts(&kernel, hosts).or_else(|| domain_in_resolv(resolv));
    HostName { hostname: kernel, domain }
}

fn domain_in_hosts(kernel: &str, hosts: &str) -> Option<String> {
    for line in hosts.lines() {
        let line = line.split('#').next().unwrap_or_default().to_ascii_lowercase();
        for name in line.split_whitespace().skip(1) {
            match name.trim_end_matches('.').split_once('.') {
                // `localhost.localdomain` is not a real domain.
                Some((first, domain)) if first == kernel && domain != "localdomain" => {
                    return Some(domain.to_owned());
                }
                _ => {}
            }
        }
    }
    None
}

/// The last `domain` or `search` line wins, as in resolv.conf(5).
fn domain_in_resolv(resolv: &str) -> Option<String> {
    let mut found = None;
    for line in resolv.lines() {
        let mut words = line.split_whitespace();
        if let (Some("domain" | "search"), Some(domain)) = (words.next(), words.next()) {
            let domain = domain.trim_end_matches('.').to_ascii_lowercase();
            found = (!domain.is_empty()).then_some(domain);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::resolve_host_name;

    #[test]
    fn domain_comes_from_kernel_then_hosts_then_resolv_conf() {
        let hosts = "127.0.0.1 localhost db1.localdomain\n10.0.0.1 db10.x.net # db1.no.net\n\
                     10.0.0.2 alias DB1.Acme.net. db1\n";
        let resolv = "search old.net\nnameserver 10.0.0.3\nsearch corp.net other.net\n";
        for (kernel, hosts, resolv, fqdn) in [
            ("DB1.lab.net.", hosts, resolv, "db1.lab.net"),
            ("db1", hosts, resolv, "db1.acme.net"),
            ("db1", "", resolv, "db1.corp.net"),
            ("db1", "", "search .\n", "db1"),
            ("db1", "", "", "db1"),
        ] {
            assert_eq!(resolve_host_name(kernel, hosts, resolv).fqdn(), fqdn, "{kernel}");
        }
    }
}
