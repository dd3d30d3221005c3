//! Drops every capability of the calling process, so that neither it nor a program that it executes has or regains one.

use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities,
};

/// Upper bound of capability numbers; the kernel rejects the first number that it does not support.
const MAX_CAPABILITIES: u32 = 64;

/// Empties the bounding set, from which root would regain capabilities on exec. Call it before the user changes: it needs `CAP_SETPCAP`. A process
/// that is not root has none to regain.
pub(super) fn drop_bounding_set() -> Result<(), Errno> {
    for number in 0..MAX_CAPABILITIES {
        match remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << number)) {
            Ok(()) => {}
            Err(Errno::INVAL) => break,
            Err(Errno::PERM) if !nix::unistd::geteuid().is_root() => break,
            Err(other) => return Err(other),
        }
    }
    Ok(())
}

/// Empties the ambient, effective, permitted and inheritable sets.
pub(super) fn drop_own_sets() -> Result<(), Errno> {
    clear_ambient_capability_set()?;
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, none)
}
