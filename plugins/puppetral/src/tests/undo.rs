//! A change is taken back by the identity of its request, with everything that it replaced.

use serde_json::{Value, json};

use super::{Bench, options};

