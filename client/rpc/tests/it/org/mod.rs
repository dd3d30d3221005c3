//! Tests of `rpc org` with the real command and a real nats-server.

#[cfg(test)]
mod audit;
#[cfg(test)]
mod backup;
#[cfg(test)]
mod broker;
#[cfg(test)]
mod emptied_stores;
#[cfg(test)]
mod files;
#[cfg(test)]
mod lost_stores;
#[cfg(test)]
mod mass_revocation;
#[cfg(test)]
mod monitoring;
#[cfg(test)]
mod names;
#[cfg(test)]
mod newcomers;
#[cfg(test)]
mod older_copy;
#[cfg(test)]
mod refresh;
#[cfg(test)]
mod revocation;
#[cfg(test)]
mod small_brokers;
#[cfg(test)]
mod world;
