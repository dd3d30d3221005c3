//! The fact `virtual`: the container or hypervisor, with Facter's values. Reads a few small files.

use std::fs;

pub(super) const PHYSICAL: &str = "physical";

/// The indicators of a container or hypervisor.
#[derive(Debug, Default)]
struct VirtualizationClues {
    /// Docker's marker file at the root exists.
    docker: bool,
    /// Podman's marker file exists.
    podman: bool,
    /// The `container` variable that the container manager sets for process 1: `container=lxc`.
    container: String,
    /// Vendor and product of the mainboard, from the firmware.
    board: String,
    hypervisor: bool,
}

pub(super) fn detect_virtualization() -> &'static str {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let vendor = text("/sys/class/dmi/id/sys_vendor");
    let product = text("/sys/class/dmi/id/product_name");
    classify_clues(&VirtualizationClues {
        docker: fs::exists("/.dockerenv").unwrap_or(false),
        podman: fs::exists("/run/.containerenv").unwrap_or(false),
        container: text("/run/systemd/container").trim().to_owned(),
        board: format!("{} {}", vendor.trim(), product.trim()),
        hypervisor: has_hypervisor_flag(&text("/proc/cpuinfo")),
    })
}

/// Whether the first processor has the flag.
fn has_hypervisor_flag(cpuinfo: &str) -> bool {
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"));
    flags.is_some_and(|line| line.split_whitespace().any(|flag| flag == "hypervisor"))
}

/// Containers are checked first: a container may run inside a virtual machine.
fn classify_clues(clues: &VirtualizationClues) -> &'static str {
    const BOARDS: [(&str, &str); 9] = [
        ("VMware", "vmware"),
        ("VirtualBox", "virtualbox"),
        ("Google", "gce"),
        ("Amazon EC2", "kvm"),
        ("OpenStack", "openstack"),
        ("QEMU", "kvm"),
        ("KVM", "kvm"),
        ("Xen", "xenhvm"),
        ("Microsoft Corporation Virtual Machine", "hyperv"),
    ];
    match clues.container.as_str() {
        "docker" => return "docker",
        "podman" => return "podman",
        "lxc" | "lxc-libvirt" => return "lxc",
        "systemd-nspawn" => return "systemd_nspawn",
        "" => {}
        _ => return "container_other",
    }
    if clues.docker {
        return "docker";
    }
    if clues.podman {
        return "podman";
    }
    match BOARDS.iter().find(|(mark, _)| clues.board.contains(mark)) {
        Some((_, word)) => word,
        None if clues.hypervisor => "unknown_hypervisor",
        None => PHYSICAL,
    }
}

#[cfg(test)]
mod tests {
    use super::{PHYSICAL, VirtualizationClues, classify_clues, has_hypervisor_flag};

    #[test]
    fn containers_take_precedence_over_hypervisors() {
        let kvm = || VirtualizationClues {
            board: "QEMU Standard PC".into(),
            hypervisor: true,
            ..VirtualizationClues::default()
        };
        assert_eq!(classify_clues(&VirtualizationClues::default()), PHYSICAL);
        assert_eq!(classify_clues(&kvm()), "kvm");
        assert_eq!(classify_clues(&VirtualizationClues { docker: true, ..kvm() }), "docker");
        assert_eq!(
            classify_clues(&VirtualizationClues { container: "lxc".into(), ..kvm() }),
            "lxc"
        );
        assert_eq!(
            classify_clues(&VirtualizationClues {
                hypervisor: true,
                ..VirtualizationClues::default()
            }),
            "unknown_hypervisor"
        );
        assert!(has_hypervisor_flag("model name : x\nflags\t\t: fpu hypervisor lm\n"));
        assert!(!has_hypervisor_flag("flags : fpu\n"));
    }
}
