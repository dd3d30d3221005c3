//! What a test of a field is applied to.

use super::path::DocumentPath;
use super::value::NodeValue;
use super::walk::{DocumentScope, VisitValue};

/// What a test is applied to: the values of a path, or one element of a list.
#[derive(Clone, Copy)]
pub(super) struct TestSubject<'a> {
    pub(super) values: SubjectValues<'a>,
    /// Whether numbers equal texts of the same number.
    pub(super) loose: bool,
}

#[derive(Clone, Copy)]
pub(super) enum SubjectValues<'a> {
    Path(&'a DocumentPath, DocumentScope<'a>),
    Element(NodeValue<'a>),
}

impl<'a> TestSubject<'a> {
    /// Whether `visit` is true for one of the values; lists are visited as a whole only.
    pub(super) fn any_whole(self, visit: VisitValue<'a, '_>) -> bool {
        match self.values {
            SubjectValues::Path(path, scope) => path.any_value(scope, visit),
            SubjectValues::Element(value) => visit(Some(value)),
        }
    }

    /// Whether `visit` is true for one of the values, or for one element of a value that is a list. An element of a list that is a list itself
    /// is visited as a whole only.
    pub(super) fn any_part(self, visit: VisitValue<'a, '_>) -> bool {
        match self.values {
            SubjectValues::Path(path, scope) => path.any_value(scope, &mut |value| {
                visit(value)
                    || value.is_some_and(|value| value.any_element(&mut |item| visit(Some(item))))
            }),
            SubjectValues::Element(value) => visit(Some(value)),
        }
    }
}
