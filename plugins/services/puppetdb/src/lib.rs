//! `PuppetDB`: [`forms`] has the forms in which it takes facts, catalogs, inputs and reports; [`sink`] sends it what happens in the fleet.

pub mod forms;
pub mod sink;
