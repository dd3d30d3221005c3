//! The files that catalogs name, in the content store on a real broker. The names of the tests contain their acceptance point A12.6.

mod collection;
mod defects;
mod fixture;
mod permissions;
mod replicas;
mod transfers;
