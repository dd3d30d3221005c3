//! Built-in facts, in Facter's structure. Kernel facts describe the running kernel; facts from files (`os`) come from the machine's root.

use muster_system::System;
use serde_json::{Map, Value, json};
use sysinfo::{CpuRefreshKind, DiskRefreshKind, Disks, MemoryRefreshKind, RefreshKind};

use super::{hostname, network, os, virtualization};

/// Unavailable facts are omitted.
pub(super) fn collect_builtin(system: &dyn System) -> Map<String, Value> {
    let mut facts = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        facts.extend(value.map(|value| (name.to_owned(), value)));
    };
    put("kernel", Some(json!(kernel_name())));
    put("kernelrelease", sysinfo::System::kernel_version().ok().map(Value::from));
    put("os", Some(os::collect_os(system)));
    put("networking", Some(network::collect_networking(&hostname::read_host_name())));
    put("mountpoints", mountpoint_facts());
    put("system_uptime", sysinfo::System::uptime().ok().map(uptime_facts));
    put("timezone", Some(json!(jiff::Zoned::now().strftime("%Z").to_string())));
    let virtualization = virtualization::detect_virtualization();
    put("is_virtual", Some(json!(virtualization != virtualization::PHYSICAL)));
    put("virtual", Some(json!(virtualization)));
    if let Ok(machine) = read_hardware() {
        put("processors", Some(processor_facts(&machine)));
        put("memory", Some(memory_facts(&machine)));
    }
    facts
}

/// The kernel's name, as `uname -s` prints it.
fn kernel_name() -> &'static str {
    match std::env::consts::OS {
        "linux" => "Linux",
        "macos" => "Darwin",
        "freebsd" => "FreeBSD",
        other => other,
    }
}

/// Memory and the list of processors; no processes, no load.
fn read_hardware() -> Result<sysinfo::System, sysinfo::Error> {
    let refresh_kind = RefreshKind::nothing()
        .with_memory(MemoryRefreshKind::everything())
        .with_cpu(CpuRefreshKind::nothing());
    sysinfo::System::new_with_specifics(refresh_kind)
}

fn processor_facts(machine: &sysinfo::System) -> Value {
    let models: Vec<&str> = machine.cpus().iter().map(sysinfo::Cpu::brand).collect();
    json!({
        "count": models.len(),
        "cores": sysinfo::System::physical_core_count().ok(),
        "isa": std::env::consts::ARCH,
        "models": models,
    })
}

fn memory_facts(machine: &sysinfo::System) -> Value {
    let mut memory = Map::new();
    let system = space_facts(machine.total_memory(), machine.available_memory());
    memory.insert("system".to_owned(), system);
    if machine.total_swap() > 0 {
        memory.insert("swap".to_owned(), space_facts(machine.total_swap(), machine.free_swap()));
    }
    Value::Object(memory)
}

/// Local file systems only: an unreachable remote server would block the collection.
fn mountpoint_facts() -> Option<Value> {
    let refresh_kind = DiskRefreshKind::nothing().with_storage();
    let disks = Disks::new_with_refreshed_list_specifics(refresh_kind).ok()?;
    let entry = |disk: &sysinfo::Disk| {
        let mut mounted = space_facts(disk.total_space(), disk.available_space());
        if let Some(mounted) = mounted.as_object_mut() {
            mounted.insert("device".to_owned(), json!(disk.name().to_string_lossy()));
            mounted.insert("filesystem".to_owned(), json!(disk.file_system().to_string_lossy()));
        }
        (disk.mount_point().to_string_lossy().into_owned(), mounted)
    };
    Some(Value::Object(disks.iter().map(entry).collect()))
}

/// Total, used and available space.
fn space_facts(total: u64, available: u64) -> Value {
    let used = total.saturating_sub(available);
    json!({
        "total": format_bytes(total),
        "total_bytes": total,
        "available_bytes": available,
        "used_bytes": used,
        "capacity": format_capacity(used, total),
    })
}

/// A percentage in Facter's format: `12.34%`.
fn format_capacity(used: u64, total: u64) -> String {
    let hundredths = u128::from(used) * 10_000 / u128::from(total.max(1));
    format!("{}.{:02}%", hundredths / 100, hundredths % 100)
}

/// A size in Facter's format: `3.75 GiB`.
fn format_bytes(bytes: u64) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut hundredths = u128::from(bytes) * 100;
    let mut unit = "bytes";
    for next in units {
        unit = next;
        if hundredths < 1024 * 100 {
            break;
        }
        if next != "PiB" {
            hundredths /= 1024;
        }
    }
    match unit {
        "bytes" => format!("{bytes} bytes"),
        unit => format!("{}.{:02} {unit}", hundredths / 100, hundredths % 100),
    }
}

fn uptime_facts(seconds: u64) -> Value {
    let (hours, days) = (seconds / 3600, seconds / 86_400);
    let text = match days {
        0 => format!("{}:{:02} hours", hours, seconds / 60 % 60),
        1 => "1 day".to_owned(),
        days => format!("{days} days"),
    };
    json!({"seconds": seconds, "hours": hours, "days": days, "uptime": text})
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{format_bytes, format_capacity, uptime_facts};

    #[test]
    fn numbers_are_formatted_like_facter() {
        assert_eq!(format_bytes(999), "999 bytes");
        assert_eq!(format_bytes(1536), "1.50 KiB");
        assert_eq!(format_bytes(4 << 30), "4.00 GiB");
        assert_eq!(format_bytes(u64::MAX), "16383.99 PiB");
        assert_eq!(format_capacity(1, 3), "33.33%");
        assert_eq!(format_capacity(0, 0), "0.00%");
        assert_eq!(
            uptime_facts(90_061),
            json!({"seconds": 90_061, "hours": 25, "days": 1, "uptime": "1 day"})
        );
        assert_eq!(uptime_facts(3660)["uptime"], "1:01 hours");
    }
}
