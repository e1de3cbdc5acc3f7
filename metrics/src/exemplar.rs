//! One exemplar for each bucket of a histogram: the last observation of which a trace is known.

use parking_lot::Mutex;

use crate::families::SECONDS;

/// A trace id, 32 hexadecimal digits.
type TraceId = [u8; 32];

/// An observation of which a trace is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exemplar {
    trace: TraceId,
    pub(crate) value: f64,
}

impl Exemplar {
    pub(crate) fn trace(&self) -> &str {
        std::str::from_utf8(&self.trace).unwrap_or_default()
    }
}

/// The exemplars of one histogram over [`SECONDS`]; the last is that of `+Inf`.
pub(crate) struct Exemplars([Mutex<Option<Exemplar>>; SECONDS.len() + 1]);

impl Default for Exemplars {
    fn default() -> Exemplars {
        Exemplars(std::array::from_fn(|_| Mutex::default()))
    }
}

impl Exemplars {
    /// Keeps an observation. What is no trace id is let go, and so is one that comes while another is put down.
    pub(crate) fn keep(&self, value: f64, trace: &str) {
        let Ok(trace) = TraceId::try_from(trace.as_bytes()) else { return };
        if !trace.iter().all(u8::is_ascii_hexdigit) {
            return;
        }
        let bucket = SECONDS.iter().position(|bound| value <= *bound).unwrap_or(SECONDS.len());
        if let Some(mut place) = self.0.get(bucket).and_then(Mutex::try_lock) {
            *place = Some(Exemplar { trace, value });
        }
    }

    /// The exemplar of a bucket.
    pub(crate) fn of(&self, bucket: usize) -> Option<Exemplar> {
        *self.0.get(bucket)?.lock()
    }
}
