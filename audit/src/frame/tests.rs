//! Lines, whole and damaged.

use super::*;

fn all(bytes: &[u8]) -> Vec<(u64, String)> {
    let mut frames = Frames::with_limit(bytes, 100);
    let mut out = Vec::new();
    while let Some((at, frame)) = frames.next().unwrap() {
        let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
        out.push((
            at,
            match frame {
                Frame::Whole(b) => format!("whole {}", text(b)),
                Frame::Flawed(Some(b), right) => format!("flawed {right} {}", text(b)),
                Frame::Flawed(None, _) => "flawed".to_owned(),
                Frame::Torn => "torn".to_owned(),
            },
        ));
    }
    out
}

#[test]
fn z1_whole_lines_and_a_torn_end() {
    let mut bytes = [line(b"{}"), line(b"{\"a\":1}")].concat();
    assert_eq!(all(&bytes), [(0, "whole {}".into()), (21, "whole {\"a\":1}".into())]);
    let whole = bytes.len();
    for cut in 22..whole {
        assert_eq!(all(&bytes[..cut])[1], (21, "torn".into()), "{cut}");
    }
    bytes.extend_from_slice(b"00000002");
    assert_eq!(all(&bytes)[2].1, "torn");
}

#[test]
fn z6_each_flipped_bit_damages_one_line_alone() {
    let bytes = [line(b"{\"n\":0}"), line(b"{\"n\":1}"), line(b"{\"n\":2}")].concat();
    let first = line(b"{\"n\":0}").len();
    for bit in first * 8..first * 2 * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let seen = all(&flipped);
        assert_eq!(seen.len(), 3, "bit {bit}: {seen:?}");
        assert_eq!(seen[0].1, "whole {\"n\":0}");
        assert!(seen[1].1.starts_with("flawed"), "bit {bit}: {seen:?}");
        assert_eq!(seen[2].1, "whole {\"n\":2}");
    }
}

#[test]
fn z20_a_length_of_two_to_the_32_and_an_endless_line_take_no_memory() {
    assert_eq!(all(b"ffffffff 00000000 {}\n")[0].1, "flawed false {}");
    let endless = io::repeat(b'x').take(1 << 28);
    let mut frames = Frames::with_limit(endless, 100);
    assert_eq!(frames.next().unwrap(), Some((0, Frame::Torn)));
    assert!(frames.buffer.capacity() < 1 << 20);
    assert_eq!(frames.next().unwrap(), None);
    let then = [vec![b'x'; 1 << 20], b"\n".to_vec(), line(b"{}")].concat();
    assert_eq!(all(&then)[1], ((1 << 20) + 1, "whole {}".into()));
}
