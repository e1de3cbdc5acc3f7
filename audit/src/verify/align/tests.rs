//! Orders of records and what is wrong with them.

use super::*;

/// A number is a record, `x` an unreadable line, `x5` one that names record 5.
fn found(order: &str, size: u64) -> String {
    let mut seen = Seen::default();
    for (line, word) in order.split_whitespace().enumerate() {
        let line = line as u64;
        match word.strip_prefix('x') {
            None => seen.authentic(word.parse().unwrap(), line),
            Some(claim) => {
                seen.foreign.push(Foreign {
                    line,
                    claim: claim.parse().ok(),
                    how: How::Edit,
                    other_log: false,
                });
            }
        }
    }
    let mut all = resolve(&seen, size);
    all.sort_by_key(|f| (f.class, f.first));
    all.iter().map(|f| format!("{:?} {}-{}", f.class, f.first, f.last)).collect::<Vec<_>>().join(", ")
}

#[test]
fn z7_orders() {
    for (order, expected) in [
        ("0 1 2 3 4 5 6 7", ""),
        ("0 1 2 4 5 6 7", "Missing 3-3"),
        ("3 4 5 6 7", "Missing 0-2"),
        ("0 1 2 3 4 5", "Truncated 6-7"),
        ("", "Truncated 0-7"),
        ("0 1 2 x3 4 5 6 7", "Edited 3-3"),
        ("0 1 2 x 4 5 6 7", "Edited 3-3"),
        ("0 1 2 x6 4 5 6 7", "Edited 3-3"),
        ("x0 1 2 3 4 5 6 x7", "Edited 0-0, Edited 7-7"),
        ("0 1 2 x 3 4 5 6 7", "Inserted 3-3"),
        ("0 1 2 x5 3 4 5 6 7", "Inserted 3-3"),
        ("x 0 1 2 3 4 5 6 7 x", "Inserted 0-0, Inserted 9-9"),
        ("0 1 2 2 3 4 5 6 7", "Inserted 3-3"),
        ("0 1 2 3 4 1 5 6 7", "Inserted 5-5"),
        ("0 6 1 2 3 4 5 6 7", "Inserted 1-1"),
        ("0 1 2 3 1 2 3 4 5 6 7", "Inserted 4-6"),
        ("0 1 3 2 4 5 6 7", "Moved 2-3"),
        ("0 1 4 3 2 5 6 7", "Moved 2-2, Moved 4-4"),
        ("0 6 2 3 4 5 1 7", "Moved 1-1, Moved 6-6"),
        ("0 2 3 4 5 6 1 7", "Moved 1-1"),
        ("0 1 5 6 7 2 3 4", "Moved 2-7"),
        ("0 1 4 5 6 7 2 3", "Moved 2-3"),
        ("0 1 x x 4 5 x6 x 7", "Edited 2-3, Edited 6-6, Inserted 7-7"),
        ("0 1 x3 4 5 6 7", "Edited 3-3, Missing 2-2"),
        ("0 1 2 x3 x4 x5", "Edited 3-5, Truncated 6-7"),
    ] {
        assert_eq!(found(order, 8), expected, "{order}");
    }
}

#[test]
fn z7_the_worst_order_takes_no_time() {
    let mut seen = Seen::default();
    (0..60_000).for_each(|line| seen.authentic(59_999 - line, line));
    let all = resolve(&seen, 60_000);
    assert!(all.iter().all(|f| f.class == Class::Moved));
}

#[test]
fn z11_findings_that_overlap_are_one() {
    let find = |first, last| Finding { class: Class::EpochGap, first, last, how: None };
    let merged = merge(vec![find(36, 55), find(36, 36), find(60, 61), find(50, 57), find(62, 62)]);
    assert_eq!(merged, [find(36, 57), find(60, 62)]);
}
