//! Diagnosis of each step between a caller and the replies of nodes: local files, the connection to a broker, the fleet.
//!
//! Each check returns a [`DiagnosisSection`] with findings and advice; nothing here prints.

mod advice;
mod broker;
mod finding;
mod fleet;
mod local;
mod stores;

pub use broker::{check_broker, describe_left_address};
pub use finding::{DiagnosisFinding, DiagnosisLevel, DiagnosisSection};
pub use fleet::check_fleet;
pub use local::check_local_files;
