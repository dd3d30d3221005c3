//! `PuppetDB`: [`forms`] has the forms in which it takes facts, catalogs, inputs and reports; [`sink`] sends it what happens in the fleet; [`query`] answers in its place.

pub mod forms;
pub mod query;
pub mod sink;
