//! A record as bytes, without a detour: every record is written once for each thing that happens.

use super::{Entry, Int, Kind, MAX_SAFE, Nanos, Text};
use crate::hash::Digest;

/// Room for a usual record.
const USUAL: usize = 1_024;

/// A member's value.
trait Value {
    fn put(&self, out: &mut Vec<u8>);

    /// Whether the member is there.
    fn there(&self) -> bool {
        true
    }
}

impl<T: Value> Value for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        if let Some(value) = self {
            value.put(out);
        }
    }

    fn there(&self) -> bool {
        self.is_some()
    }
}

/// Decimal digits.
fn digits(mut value: u64, out: &mut Vec<u8>) {
    let mut text = [b'0'; 20];
    let mut length = 0;
    for place in text.iter_mut().rev() {
        *place = b'0' + u8::try_from(value % 10).unwrap_or_default();
        (value, length) = (value / 10, length + 1);
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(text.get(text.len() - length..).unwrap_or_default());
}

impl Value for Int {
    fn put(&self, out: &mut Vec<u8>) {
        if self.0 <= MAX_SAFE { digits(self.0, out) } else { Nanos(self.0).put(out) }
    }
}

impl Value for Nanos {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(b'"');
        digits(self.0, out);
        out.push(b'"');
    }
}

impl Value for i64 {
    fn put(&self, out: &mut Vec<u8>) {
        if *self < 0 {
            out.push(b'-');
        }
        digits(self.unsigned_abs(), out);
    }
}

impl Value for i32 {
    fn put(&self, out: &mut Vec<u8>) {
        i64::from(*self).put(out);
    }
}

impl Value for Digest {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(b'"');
        out.extend_from_slice(&self.digits());
        out.push(b'"');
    }
}

impl Value for Kind {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(b'"');
        out.extend_from_slice(self.name().as_bytes());
        out.push(b'"');
    }
}

impl Value for Text {
    fn put(&self, out: &mut Vec<u8>) {
        let steers = |any: bool, byte: &u8| any | (*byte < 0x20) | (*byte == b'"') | (*byte == b'\\');
        if self.as_bytes().iter().fold(false, steers) {
            // Writing to memory can't fail.
            let _ = serde_json::to_writer(out, &**self);
            return;
        }
        out.push(b'"');
        out.extend_from_slice(self.as_bytes());
        out.push(b'"');
    }
}

/// Writes members in the order in which they are given. A record's field that is not among them does not compile.
macro_rules! members {
    ($entry:expr, $out:expr, $($name:ident)*) => {{
        let Entry { $($name),* } = $entry;
        $(if $name.there() {
            $out.extend_from_slice(concat!(",\"", stringify!($name), "\":").as_bytes());
            $name.put($out);
        })*
    }};
}

/// Appends the record's JSON. The order is that of the fields' declaration, which a test holds to the names'.
pub(super) fn write(entry: &Entry, out: &mut Vec<u8>) {
    let start = out.len();
    out.reserve(USUAL);
    members!(entry, out,
        args_bytes args_mac boot bytes_dropped call charged_bytes checkpoint client cost_nanousd count day decision
        digest durability epoch fork_log fork_root fork_size index iss kind log method mono_ns ms outcome
        policy_digest prev reason redactions reserved_bytes reserved_nanousd result_bytes result_mac rule run
        segment seq server sig size snapshot span status step_ms sub task tenant tool tool_digest trace traceparent
        ts v vkey
    );
    // The comma before the first member.
    if let Some(first) = out.get_mut(start) {
        *first = b'{';
    }
    out.push(b'}');
}
