//! Notes of others, and notes that must not pass.

use super::*;

const PETER: &str = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
/// The example of the Go package `note`, which the C2SP format comes from.
const ENIGMA: &str = "If you think cryptography is the answer to your problem,\nthen you don't know what your \
    problem is.\n\n— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n";

fn key() -> SigningKey {
    SigningKey::from_seed([7; 32]).unwrap()
}

fn signed() -> (String, VerifierKey) {
    let checkpoint = Checkpoint { origin: "example.com/log".into(), size: 12, root: Digest([3; 32]) };
    (checkpoint.sign(&key()), key().verifier("example.com/log"))
}

#[test]
fn z14_the_example_of_the_note_package_verifies() {
    let peter = VerifierKey::parse(PETER).unwrap();
    let note = Note::parse(ENIGMA.as_bytes()).unwrap();
    assert_eq!(note.verify([&peter]), Ok(&peter));
    let forged = Note::parse(ENIGMA.replace("problem is", "problem was").as_bytes()).unwrap();
    assert_eq!(forged.verify([&peter]), Err(NoteError::BadSignature));
}

#[test]
fn z14_a_checkpoint_is_read_back_by_its_key_alone() {
    let (note, key) = signed();
    let (checkpoint, by) = Checkpoint::open(note.as_bytes(), [&key]).unwrap();
    assert_eq!((checkpoint.size, by), (12, &key));
    let other = SigningKey::from_seed([8; 32]).unwrap().verifier("example.com/log");
    assert_eq!(Checkpoint::open(note.as_bytes(), [&other]), Err(NoteError::UnknownKey));
    let named = VerifierKey::new("example.com/other", *key.public()).unwrap();
    assert_eq!(Checkpoint::open(note.as_bytes(), [&named]), Err(NoteError::UnknownKey));
}

#[test]
fn z14_unknown_signatures_are_ignored_and_known_bad_ones_refuse_the_note() {
    let (note, key) = signed();
    let unknown = format!("{note}— witness.example {}\n", BASE64_STANDARD.encode([1; 68]));
    assert!(Checkpoint::open(unknown.as_bytes(), [&key]).is_ok());
    let bytes = [key.id().as_slice(), &[1; 64]].concat();
    let bad = format!("{note}— example.com/log {}\n", BASE64_STANDARD.encode(bytes));
    assert_eq!(Checkpoint::open(bad.as_bytes(), [&key]), Err(NoteError::BadSignature));
}

#[test]
fn z14_what_is_not_exactly_a_note_is_refused() {
    let (note, key) = signed();
    let many = "— witness.example AAAAAAAA\n".repeat(10_000);
    let wrong = [
        note.replace('\n', "\r\n"),
        note.trim_end().to_owned(),
        format!("{note}\n"),
        note.replace("\n\n", "\n"),
        format!("{note}{many}"),
        format!("{note}— a b\n"),
        note.replace("— ", "- "),
        note.replace("— example.com/log", "— example.com/+log"),
        note.replace("12\n", "12\t\n"),
        note.trim_end().to_owned() + "=\n",
        String::new(),
        "\n\n".into(),
    ];
    for text in wrong {
        assert!(Checkpoint::open(text.as_bytes(), [&key]).is_err(), "{text:?}");
    }
    // The last two bits of the last digit before the padding are free: only zero is canonical.
    let loose = note.trim_end_matches("=\n");
    let last = loose.chars().last().unwrap();
    for digit in
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".chars().filter(|d| *d != last)
    {
        let text = format!("{}{digit}=\n", &loose[..loose.len() - 1]);
        assert!(Checkpoint::open(text.as_bytes(), [&key]).is_err(), "{digit}");
    }
}

#[test]
fn z14_texts_that_are_no_checkpoint_are_refused() {
    let root = BASE64_STANDARD.encode([3; 32]);
    for text in [
        format!("a\n012\n{root}\n"),
        format!("a\n+1\n{root}\n"),
        format!("a\n-1\n{root}\n"),
        format!("a\n18446744073709551616\n{root}\n"),
        format!("\n1\n{root}\n"),
        format!("a\n1\n{}\n", BASE64_STANDARD.encode([3; 31])),
        format!("a\n1\n{root}\n\nb\n"),
        "a\n1\n".to_owned(),
    ] {
        assert_eq!(Checkpoint::of_text(&text), Err(NoteError::NoCheckpoint), "{text}");
    }
    assert_eq!(Checkpoint::of_text(&format!("a\n0\n{root}\nmore\n")).unwrap().size, 0);
}
