//! How two globs relate: whether a name can match both, and whether one matches all that the other does. For reports,
//! not for decisions: the second may miss a true case, and never claims a false one.

use super::{Glob, Token};

/// Whether some name matches both.
pub(crate) fn overlap(a: &Glob, b: &Glob) -> bool {
    a.alternatives().iter().any(|a| b.alternatives().iter().any(|b| meet(a, b)))
}

/// Whether every name that matches `inner` matches `outer`, as far as can be told alternative by alternative.
pub(crate) fn covers(outer: &Glob, inner: &Glob) -> bool {
    inner.alternatives().iter().all(|inner| outer.alternatives().iter().any(|outer| covered(outer, inner)))
}

fn meet(a: &[Token], b: &[Token]) -> bool {
    table(a, b, |x, y| x == y || x == Token::One || y == Token::One, true)
}

/// The same of two alternatives.
pub(crate) fn covered(outer: &[Token], inner: &[Token]) -> bool {
    table(outer, inner, |x, y| x == y || x == Token::One, false)
}

/// Walks both sequences at once. `row[j]` says whether what is left of `a` goes with what is left of `b` from `j`.
fn table(a: &[Token], b: &[Token], same: impl Fn(Token, Token) -> bool, both: bool) -> bool {
    let mut row: Vec<bool> = vec![false; b.len() + 1];
    let at = |row: &[bool], j: usize| row.get(j).copied().unwrap_or(false);
    for i in (0..=a.len()).rev() {
        let below = std::mem::take(&mut row);
        row = vec![false; b.len() + 1];
        for j in (0..=b.len()).rev() {
            let holds = match (a.get(i).copied(), b.get(j).copied()) {
                (None, None) => true,
                // A run takes nothing, or one more of the other side.
                (Some(Token::Run), other) => at(&below, j) || (other.is_some() && at(&row, j + 1)),
                (some, Some(Token::Run)) if both => at(&row, j + 1) || (some.is_some() && at(&below, j)),
                (Some(_), Some(Token::Run)) | (None, _) | (_, None) => false,
                (Some(x), Some(y)) => same(x, y) && at(&below, j + 1),
            };
            if let Some(cell) = row.get_mut(j) {
                *cell = holds;
            }
        }
    }
    at(&row, 0)
}
