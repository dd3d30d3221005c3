//! Tests on booted Debian machines, a fleet for each.

mod again_runs;
mod boot;
mod checks;
mod daemon_findings;
mod duplicates;
mod engine_findings;
mod external_agents;
mod hardening;
mod icinga;
mod install;
mod motd;
mod network;
mod observe;
mod power_cuts;
mod puppet_runs;
mod releases;
mod resource_cases;
mod resources;
mod scheduled_runs;
mod service_refreshes;
mod shortages;
mod ssh;
mod ssh_certificates;
mod ssh_via_bus;
mod systemd;
mod unit_states;
