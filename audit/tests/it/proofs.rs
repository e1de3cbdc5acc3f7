//! Case Z13 with whole logs: proof files that hold, and those that must not.

use tollgate_audit::key::VerifierKey;
use tollgate_audit::proof::{Proof, ProofError};
use tollgate_audit::prove::{ProveError, prove};

use crate::corpus::{Base, Shape, base};

fn keys(base: &Base) -> Vec<VerifierKey> {
    // One epoch: the first key is all.
    vec![base.key.clone()]
}

#[test]
fn z13_every_record_of_a_log_is_proven_by_a_file_that_stands_alone() {
    let base = base(Shape { records: 70, segments: 3, epochs: 1 });
    for seq in 0..70 {
        let proof = prove(&base.files, seq, &keys(&base)).unwrap();
        let read = Proof::parse(&proof.text()).unwrap();
        assert_eq!(read, proof);
        assert_eq!(read.check(&keys(&base)).unwrap().size, 70);
        assert_eq!(read.record, base.bodies[seq as usize]);
    }
    assert!(matches!(prove(&base.files, 70, &keys(&base)), Err(ProveError::NoRecord(70))));
    let mut unsealed = base.files.clone();
    unsealed.0.retain(|name, _| !name.ends_with("checkpoints"));
    assert!(matches!(prove(&unsealed, 3, &keys(&base)), Err(ProveError::Unsealed(3))));
}

#[test]
fn z13_proofs_of_another_record_place_log_or_key_are_refused() {
    let (one, other) = (
        base(Shape { records: 40, segments: 1, epochs: 1 }),
        base(Shape { records: 40, segments: 1, epochs: 1 }),
    );
    let proof = prove(&one.files, 7, &keys(&one)).unwrap();
    let with = |change: &dyn Fn(&mut Proof)| {
        let mut changed = proof.clone();
        change(&mut changed);
        changed.check(&keys(&one))
    };
    assert!(with(&|_| ()).is_ok());
    assert_eq!(with(&|p| p.index = 8), Err(ProofError::NotIncluded));
    assert_eq!(with(&|p| p.record = one.bodies[8].clone()), Err(ProofError::NotIncluded));
    assert_eq!(with(&|p| p.path.truncate(1)), Err(ProofError::NotIncluded));
    assert_eq!(with(&|p| p.path.swap(0, 1)), Err(ProofError::NotIncluded));
    assert_eq!(with(&|p| p.checkpoint.clone_from(&one.notes[0])), Err(ProofError::NotIncluded));
    assert!(matches!(proof.check(&keys(&other)), Err(ProofError::Checkpoint(_))));
    let foreign = prove(&other.files, 7, &keys(&other)).unwrap();
    assert!(matches!(foreign.check(&keys(&one)), Err(ProofError::Checkpoint(_))));
    let text = proof.text();
    for wrong in [
        text.replace("@v1", "@v2"),
        text.replace("index 7", "index 07"),
        text.replace("index 7\n", ""),
        text.replace("extra ", "extra  "),
        text.replacen("\n\n", "\n", 1),
        String::new(),
    ] {
        assert!(Proof::parse(&wrong).is_err(), "{wrong}");
    }
}
