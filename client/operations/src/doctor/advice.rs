//! The next step for each problem that a node reports about itself.

/// Advice for a check of a node; `None` for a check of a later version.
pub(crate) fn node_advice(check: &str) -> Option<&'static str> {
    Some(match check {
        "policies" => {
            "on the node: correct the file, check it with `rpcd --check`, then `systemctl reload rpcd`. Until then, requests that depend on it are denied"
        }
        "facts" | "classes" | "motd" | "checks" => {
            "on the node: correct the file or the program, then `systemctl reload rpcd`; `rpcd --check` names what is wrong"
        }
        "plugins" => {
            "on the node: correct the agent's files or its section in rpcd.toml, then `systemctl reload rpcd`"
        }
        "disk" => {
            "on the node: free space there, or mount the file system writable; the daemon goes on by itself"
        }
        "audit" => {
            "on the node: free space for the audit log; `rpc audit verify` shows what was not recorded"
        }
        "journal" => {
            "on the node: check the disk with the state directory; requests from before the start are refused until they expire"
        }
        "credentials" => {
            "on the organisation's machine: `rpc org add node NAME --renew`, and start the enroller; on the node: check owner and mode of the file"
        }
        "trust" => "run `rpc broker status`, then `rpc org push`",
        "broker addresses" => {
            "check that the node reaches the addresses in the message; `rpcd --check` on the node prints which ones it uses"
        }
        "broker clock" => "run NTP or chrony on the servers of the broker and on these nodes",
        "clone" => {
            "give the copy a name and a key of its own: `Two machines have the same name and key` in the guide to troubleshooting"
        }
        "answers" => {
            "`rpc plugin doc rpcutil` names the action `diagnose`, which the node's policy must allow to see what it reports about itself"
        }
        "again" => {
            "on the node: see the log of rpcd; runs that were asked for wait until this is repaired"
        }
        "configuration" => {
            "on the node: check the files with `rpcd --check`, then `rpcd restart`, which loses no reply"
        }
        "metrics" => {
            "on the node: choose a free address with `metrics.listen`, then `systemctl restart rpcd`"
        }
        "ssh authorities" => "on the node: check the file and its directory, which sshd reads",
        _ => return None,
    })
}
