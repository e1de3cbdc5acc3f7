//! The Merkle tree of RFC 6962, section 2.1: hashing, the compact range of an append-only log, inclusion and
//! consistency proofs. It knows leaf hashes alone, never records.

use crate::hash::Digest;

/// `SHA-256(0x00 ‖ data)`.
pub fn leaf_hash(data: &[u8]) -> Digest {
    Digest::sha256(&[&[0], data])
}

/// `SHA-256(0x01 ‖ left ‖ right)`.
pub fn node_hash(left: &Digest, right: &Digest) -> Digest {
    let mut bytes = [1_u8; 65];
    let (_, rest) = bytes.split_at_mut(1);
    let (a, b) = rest.split_at_mut(32);
    a.copy_from_slice(&left.0);
    b.copy_from_slice(&right.0);
    Digest::sha256(&[&bytes])
}

/// The roots of the perfect subtrees that cover the first `size` leaves, greatest first: all that appending needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Range {
    size: u64,
    nodes: Vec<Digest>,
}

impl Range {
    /// A range from its parts, if their number fits the size.
    pub fn from_parts(size: u64, nodes: Vec<Digest>) -> Option<Range> {
        (nodes.len() == usize::try_from(size.count_ones()).ok()?).then_some(Range { size, nodes })
    }

    /// How many leaves it covers.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The subtrees' roots, greatest first.
    pub fn nodes(&self) -> &[Digest] {
        &self.nodes
    }

    /// Appends a leaf's hash.
    pub fn push(&mut self, leaf: Digest) {
        let mut node = leaf;
        for _ in 0..self.size.trailing_ones() {
            let Some(left) = self.nodes.pop() else { break };
            node = node_hash(&left, &node);
        }
        self.nodes.push(node);
        self.size += 1;
    }

    /// The root; of no leaves it is `SHA-256("")`.
    pub fn root(&self) -> Digest {
        let mut nodes = self.nodes.iter().rev();
        let Some(last) = nodes.next() else { return Digest::sha256(&[]) };
        nodes.fold(*last, |right, left| node_hash(left, &right))
    }
}

/// The greatest power of two below `n`; `n` is at least 2.
fn split(n: u64) -> u64 {
    n.checked_sub(1).map_or(1, |m| 1_u64 << m.checked_ilog2().unwrap_or(0))
}

/// Where leaf hashes come from, by index.
pub type Leaves<'a> = &'a mut dyn FnMut(u64) -> Option<Digest>;

/// Root over the leaves `[from, to)`.
fn subtree(leaves: Leaves<'_>, from: u64, to: u64) -> Option<Digest> {
    let mut range = Range::default();
    for index in from..to {
        range.push(leaves(index)?);
    }
    Some(range.root())
}

/// The path from leaf `index` to the root over the first `size` leaves, the leaf's sibling first. Reads each leaf
/// once. `None` when the index is not below the size or a leaf is not there.
pub fn inclusion(leaves: Leaves<'_>, index: u64, size: u64) -> Option<Vec<Digest>> {
    if index >= size {
        return None;
    }
    let (mut from, mut to, mut path) = (0, size, Vec::new());
    while to - from > 1 {
        let middle = from + split(to - from);
        if index < middle {
            path.push(subtree(leaves, middle, to)?);
            to = middle;
        } else {
            path.push(subtree(leaves, from, middle)?);
            from = middle;
        }
    }
    path.reverse();
    Some(path)
}

/// The root that a leaf at `index` of `size` leaves has with this path, by RFC 9162, section 2.1.3.2. `None` when the
/// path's length doesn't fit the index and the size.
pub fn root_of_inclusion(leaf: Digest, index: u64, size: u64, path: &[Digest]) -> Option<Digest> {
    let mut last = size.checked_sub(1)?;
    if index > last {
        return None;
    }
    let (mut at, mut node) = (index, leaf);
    for step in path {
        if last == 0 {
            return None;
        }
        if at & 1 == 1 || at == last {
            node = node_hash(step, &node);
            while at & 1 == 0 && at != 0 {
                at >>= 1;
                last >>= 1;
            }
        } else {
            node = node_hash(&node, step);
        }
        at >>= 1;
        last >>= 1;
    }
    (last == 0).then_some(node)
}

/// What shows that the tree of `old` leaves is a prefix of that of `new` leaves (RFC 6962, section 2.1.2).
/// `None` when `old` is 0 or over `new`, or a leaf is not there.
pub fn consistency(leaves: Leaves<'_>, old: u64, new: u64) -> Option<Vec<Digest>> {
    if old == 0 || old > new {
        return None;
    }
    let (mut from, mut to, mut whole, mut path) = (0, new, true, Vec::new());
    while old != to {
        let middle = from + split(to - from);
        if old <= middle {
            path.push(subtree(leaves, middle, to)?);
            to = middle;
        } else {
            path.push(subtree(leaves, from, middle)?);
            from = middle;
            whole = false;
        }
    }
    if !whole {
        path.push(subtree(leaves, from, to)?);
    }
    path.reverse();
    Some(path)
}

/// Whether the proof shows that a tree of `old` leaves and this root is a prefix of the other (RFC 9162, section
/// 2.1.4.2).
pub fn consistent(old: (u64, Digest), new: (u64, Digest), path: &[Digest]) -> bool {
    if old.0 == new.0 {
        return old.1 == new.1 && path.is_empty();
    }
    if old.0 == 0 || old.0 > new.0 {
        return false;
    }
    let mut steps = path.iter();
    let (mut at, mut last) = (old.0 - 1, new.0 - 1);
    while at & 1 == 1 {
        at >>= 1;
        last >>= 1;
    }
    // A power of two is a whole subtree: the proof leaves its root out.
    let first = if old.0.is_power_of_two() { Some(&old.1) } else { steps.next() };
    let Some(first) = first else { return false };
    let (mut small, mut great) = (*first, *first);
    for step in steps {
        if last == 0 {
            return false;
        }
        if at & 1 == 1 || at == last {
            (small, great) = (node_hash(step, &small), node_hash(step, &great));
            while at & 1 == 0 && at != 0 {
                at >>= 1;
                last >>= 1;
            }
        } else {
            great = node_hash(&great, step);
        }
        at >>= 1;
        last >>= 1;
    }
    last == 0 && small == old.1 && great == new.1
}

#[cfg(test)]
mod tests;
