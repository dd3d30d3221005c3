//! Organisations through the real command, and through a real nats-server where there is one.

#[cfg(test)]
mod audit;
#[cfg(test)]
mod broker;
#[cfg(test)]
mod files;
#[cfg(test)]
mod newcomers;
#[cfg(test)]
mod revocation;
#[cfg(test)]
mod world;
