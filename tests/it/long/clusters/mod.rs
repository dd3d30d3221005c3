//! Clusters of real nats-servers and leaf nodes with the configuration that `rpc broker config` generates, unchanged.

mod backup;
mod balance;
mod calls;
mod damaged_files;
mod fixture;
mod growth;
mod moves;
mod routes;
mod status;
mod stolen_leaf;
