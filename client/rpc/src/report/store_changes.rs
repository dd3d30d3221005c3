//! Prints what was changed in the broker's stores.

use muster_display::count_text;
use muster_display::printer::{GOOD, OutputPrinter};
use muster_organisation::{StoreChange, StoreChangeKind};

pub fn print_store_changes(changes: &[StoreChange], printer: &OutputPrinter) {
    for StoreChange { store, kind } in changes {
        match kind {
            StoreChangeKind::Created(replicas) => printer.print_message(format_args!(
                "{GOOD}created{GOOD:#} the store {store} with {}",
                count_text(*replicas, "replica", "replicas")
            )),
            StoreChangeKind::Adopted(server) => printer.print_message(format_args!(
                "{GOOD}adopted{GOOD:#} the store {store} of {server}, which stored it before it belonged to the cluster"
            )),
            StoreChangeKind::Updated(settings) => {
                let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
                printer.print_message(format_args!(
                    "{GOOD}updated{GOOD:#} the store {store}: {}",
                    settings.join(", ")
                ));
            }
        }
    }
}
