//! Trees against the recursive definition, and proofs that must not pass.

use super::*;

fn leaves(n: u64) -> Vec<Digest> {
    (0..n).map(|i| leaf_hash(&i.to_be_bytes())).collect()
}

/// MTH of RFC 6962, word by word.
fn mth(leaves: &[Digest]) -> Digest {
    match leaves {
        [] => Digest::sha256(&[]),
        [one] => *one,
        _ => {
            let k = leaves.len().next_power_of_two() / 2;
            node_hash(&mth(&leaves[..k]), &mth(&leaves[k..]))
        }
    }
}

fn get(all: &[Digest]) -> impl FnMut(u64) -> Option<Digest> {
    move |i| all.get(usize::try_from(i).unwrap()).copied()
}

#[test]
fn known_roots_of_rfc_6962() {
    assert_eq!(
        Range::default().root().hex(),
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    );
    assert_eq!(leaf_hash(b"").hex(), "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d");
    // The eight inputs of Certificate Transparency's own test vectors.
    let inputs: [&[u8]; 8] = [
        b"",
        b"\0",
        b"\x10",
        b"\x20\x21",
        b"\x30\x31",
        b"\x40\x41\x42\x43",
        b"\x50\x51\x52\x53\x54\x55\x56\x57",
        b"\x60\x61\x62\x63\x64\x65\x66\x67\x68\x69\x6a\x6b\x6c\x6d\x6e\x6f",
    ];
    let mut range = Range::default();
    inputs.iter().for_each(|i| range.push(leaf_hash(i)));
    assert_eq!(range.root().hex(), "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328");
}

#[test]
fn roots_and_proofs_agree_with_the_definition_up_to_70_leaves() {
    let all = leaves(70);
    let mut range = Range::default();
    for size in 1..=70_u64 {
        range.push(all[size as usize - 1]);
        let root = mth(&all[..size as usize]);
        assert_eq!(range.root(), root);
        assert_eq!(Range::from_parts(size, range.nodes().to_vec()), Some(range.clone()));
        for index in 0..size {
            let path = inclusion(&mut get(&all), index, size).unwrap();
            assert_eq!(root_of_inclusion(all[index as usize], index, size, &path), Some(root));
        }
        for old in 1..=size {
            let path = consistency(&mut get(&all), old, size).unwrap();
            assert!(consistent((old, mth(&all[..old as usize])), (size, root), &path), "{old} of {size}");
        }
    }
}

#[test]
fn z13_proofs_for_another_place_size_or_root_are_refused() {
    let all = leaves(40);
    for size in [1, 2, 7, 8, 33, 40_u64] {
        let root = mth(&all[..size as usize]);
        for index in 0..size {
            let leaf = all[index as usize];
            let path = inclusion(&mut get(&all), index, size).unwrap();
            for other in (0..size).filter(|o| *o != index) {
                assert_ne!(root_of_inclusion(leaf, other, size, &path), Some(root), "{index} as {other}");
            }
            let longer = [path.clone(), vec![leaf]].concat();
            assert_ne!(root_of_inclusion(leaf, index, size, &longer), Some(root));
            if !path.is_empty() {
                assert_ne!(root_of_inclusion(leaf, index, size, &path[1..]), Some(root));
                // A node's hash passed off as a leaf's.
                assert_ne!(root_of_inclusion(node_hash(&leaf, &path[0]), index, size, &path), Some(root));
            }
        }
        assert_eq!(inclusion(&mut get(&all), size, size), None);
        for old in 1..size {
            let path = consistency(&mut get(&all), old, size).unwrap();
            let was = mth(&all[..old as usize]);
            assert!(!consistent((old, root), (size, root), &path));
            assert!(!consistent((old, was), (size, was), &path));
            assert!(!consistent((old + 1, was), (size, root), &path));
            let longer = [path.clone(), vec![was]].concat();
            assert!(!consistent((old, was), (size, root), &longer));
        }
    }
    assert!(!consistent((0, Digest::sha256(&[])), (4, mth(&all[..4])), &[]));
    assert!(!consistent((5, mth(&all[..5])), (4, mth(&all[..4])), &[]));
}
