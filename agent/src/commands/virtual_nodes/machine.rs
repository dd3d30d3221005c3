//! The machine of a virtual node: a few files in memory, as on a freshly installed Linux, and one program, a check. Changes to it do not affect the real
//! machine.

use std::path::Path;
use std::time::SystemTime;

use muster_system::fake::FakeSystem;
use muster_system::{CommandOutput, FileAttributes, System};
use muster_wire::identity::Identity;

/// A root other than `/` makes account resources edit the files directly; the path never exists.
const MACHINE_ROOT: &str = "/nonexistent/virtual";

const MACHINE_FILES: [(&str, &str, u32); 6] = [
    ("/etc/passwd", "root:x:0:0:root:/root:/bin/bash\n", 0o644),
    ("/etc/group", "root:x:0:\n", 0o644),
    ("/etc/shadow", "root:*:19000:0:99999:7:::\n", 0o640),
    ("/etc/gshadow", "root:*::\n", 0o640),
    ("/etc/hosts", "127.0.0.1\tlocalhost\n", 0o644),
    ("/etc/aliases", "postmaster: root\n", 0o644),
];

const MACHINE_DIRECTORIES: [&str; 6] = ["/etc/skel", "/home", "/root", "/run", "/tmp", "/var/lib"];

/// The check: its program, what NRPE's configuration says of it, and its output.
const CHECK_PROGRAM: &str = "/usr/lib/nagios/plugins/check_load";
const CHECK_CONFIGURATION: &str =
    "command[check_load]=/usr/lib/nagios/plugins/check_load -w 15 -c 30\n";
const CHECK_OUTPUT: &[u8] = b"OK - load average: 0.04, 0.03, 0.05|load1=0.040;15;30;0\n";

/// Creates a new machine. Its clock is fixed at the current time.
pub(super) fn new_machine(name: &Identity) -> FakeSystem {
    let system = FakeSystem::new().with_root(MACHINE_ROOT);
    system.set_now(SystemTime::now());
    for directory in MACHINE_DIRECTORIES {
        system.add_directory(directory);
    }
    for (path, text, mode) in MACHINE_FILES {
        system.add_file(path, text);
        let attributes = FileAttributes { mode: Some(mode), ..FileAttributes::default() };
        // The file was created above, so this cannot fail.
        let _ = system.set_attributes(Path::new(path), &attributes);
    }
    system.add_file("/etc/hostname", format!("{name}\n"));
    system.add_file("/etc/nagios/nrpe.cfg", CHECK_CONFIGURATION);
    let output = CommandOutput::new(0, CHECK_OUTPUT);
    system.script_output(&[CHECK_PROGRAM, "-w", "15", "-c", "30"], output);
    system
}
