//! The actions, one file for those that change the node and one for those that read it.

pub(crate) mod apply;
pub(crate) mod read;
