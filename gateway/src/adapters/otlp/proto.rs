//! Protocol Buffers' wire format, as far as spans need it. Fields are written in the order of the calls; what is empty or
//! zero is left out, as the format's third version has it.

/// A message in the making.
#[derive(Default)]
pub(super) struct Message(Vec<u8>);

impl Message {
    /// The bytes.
    pub(super) fn finish(self) -> Vec<u8> {
        self.0
    }

    pub(super) fn varint(&mut self, field: u32, value: u64) {
        if value != 0 {
            self.key(field, 0);
            self.raw(value);
        }
    }

    pub(super) fn fixed64(&mut self, field: u32, value: u64) {
        if value != 0 {
            self.key(field, 1);
            self.0.extend_from_slice(&value.to_le_bytes());
        }
    }

    pub(super) fn fixed32(&mut self, field: u32, value: u32) {
        if value != 0 {
            self.key(field, 5);
            self.0.extend_from_slice(&value.to_le_bytes());
        }
    }

    pub(super) fn bytes(&mut self, field: u32, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.length(field, bytes.len());
            self.0.extend_from_slice(bytes);
        }
    }

    /// A message within; it is there also when it is empty.
    pub(super) fn message(&mut self, field: u32, write: impl FnOnce(&mut Message)) {
        let mut inner = Message::default();
        write(&mut inner);
        self.length(field, inner.0.len());
        self.0.append(&mut inner.0);
    }

    /// One member of a list of attributes: a text.
    pub(super) fn text(&mut self, field: u32, key: &str, value: &str) {
        // An empty text is a value too.
        self.attribute(field, key, |any| {
            any.length(1, value.len());
            any.0.extend_from_slice(value.as_bytes());
        });
    }

    /// One member of a list of attributes: a whole number.
    pub(super) fn number(&mut self, field: u32, key: &str, value: u64) {
        self.attribute(field, key, |any| {
            any.key(3, 0);
            any.raw(value);
        });
    }

    fn attribute(&mut self, field: u32, key: &str, value: impl FnOnce(&mut Message)) {
        self.message(field, |pair| {
            pair.bytes(1, key.as_bytes());
            pair.message(2, value);
        });
    }

    fn length(&mut self, field: u32, length: usize) {
        self.key(field, 2);
        self.raw(u64::try_from(length).unwrap_or(u64::MAX));
    }

    fn key(&mut self, field: u32, wire: u8) {
        self.raw(u64::from(field) << 3 | u64::from(wire));
    }

    fn raw(&mut self, mut value: u64) {
        loop {
            let low = u8::try_from(value & 0x7f).unwrap_or_default();
            value >>= 7;
            if value == 0 {
                return self.0.push(low);
            }
            self.0.push(low | 0x80);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_as_the_format_says() {
        let mut message = Message::default();
        message.varint(1, 150);
        message.varint(2, 0);
        message.bytes(2, b"testing");
        message.message(3, |inner| inner.varint(1, 150));
        message.fixed32(4, 1);
        message.fixed64(5, 2);
        message.message(6, |_| {});
        let want =
            b"\x08\x96\x01\x12\x07testing\x1a\x03\x08\x96\x01\x25\x01\0\0\0\x29\x02\0\0\0\0\0\0\0\x32\0";
        assert_eq!(message.finish(), want);
    }
}
