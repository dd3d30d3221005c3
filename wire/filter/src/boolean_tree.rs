//! `and`, `or` and `not` of select expressions and of PQL. What a term means, and what `not` does to it, is that language's own.

/// Terms joined by `and`, `or` and `not`. Lists have two elements or more, and no element of the list's
/// own kind, so redundant parentheses do not change the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BooleanTree<T> {
    List(Connective, Vec<BooleanTree<T>>),
    Not(Box<BooleanTree<T>>),
    Term(T),
}

/// What joins the elements of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Connective {
    And,
    Or,
}

impl<T> BooleanTree<T> {
    /// The trees joined by a connective; a single tree stays itself. There is at least one.
    pub(super) fn join_list(connective: Connective, mut trees: Vec<Self>) -> Self {
        if trees.len() == 1 {
            return trees.remove(0);
        }
        let flatten = |tree| match tree {
            Self::List(inner, list) if inner == connective => list,
            other => vec![other],
        };
        Self::List(connective, trees.into_iter().flat_map(flatten).collect())
    }

    /// `not a`.
    pub(super) fn negate_tree(tree: Self) -> Self {
        Self::Not(Box::new(tree))
    }

    /// The operands of `and`, `or` and `not`, in the order as written.
    pub(super) fn leaf_terms(&self) -> Vec<&T> {
        match self {
            Self::List(_, list) => list.iter().flat_map(Self::leaf_terms).collect(),
            Self::Not(inner) => inner.leaf_terms(),
            Self::Term(term) => vec![term],
        }
    }

    /// The depth of the tree; its printed form nests no deeper.
    pub(super) fn depth(&self) -> usize {
        match self {
            Self::List(_, list) => 1 + list.iter().map(Self::depth).max().unwrap_or(0),
            Self::Not(inner) => 1 + inner.depth(),
            Self::Term(_) => 0,
        }
    }

    /// The terms that must be true for the tree to be true, as far as `and` joins them.
    pub(super) fn required_terms(&self) -> Vec<&T> {
        match self {
            Self::List(Connective::And, list) => {
                list.iter().flat_map(Self::required_terms).collect()
            }
            Self::Term(term) => vec![term],
            Self::List(Connective::Or, _) | Self::Not(_) => Vec::new(),
        }
    }

    /// Whether the tree is true only if a term is true for which `accept` is.
    pub(super) fn requires(&self, accept: &dyn Fn(&T) -> bool) -> bool {
        match self {
            Self::List(Connective::And, list) => list.iter().any(|tree| tree.requires(accept)),
            Self::List(Connective::Or, list) => list.iter().all(|tree| tree.requires(accept)),
            Self::Not(_) => false,
            Self::Term(term) => accept(term),
        }
    }
}
