//! How large a tool's result may be. Counts over the raw text, before anything is copied or decoded; a result within
//! its caps is given back as it came, a larger one is refused or cut, with a mark that a model and a program can read.

mod cut;
mod layout;

#[cfg(test)]
mod tests;

use crate::splice::Malformed;
use layout::Layout;

/// The caps of one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// The whole result as JSON, in bytes.
    pub bytes: usize,
    /// Items of `content`, `contents` or `messages`. The mark of a cut isn't counted.
    pub items: usize,
    /// One image or sound, decoded, in bytes.
    pub image_bytes: usize,
    /// One embedded resource's blob, decoded, in bytes.
    pub blob_bytes: usize,
    /// What happens to a larger result.
    pub on_too_large: OnTooLarge,
}

/// What happens to a result over its caps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnTooLarge {
    /// The call fails with a reason.
    Refuse,
    /// What fits is kept, and the rest named. Only results with `content` are cut: the others have no place for a mark.
    Truncate,
}

/// A result within its caps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Capped<'a> {
    /// As it came.
    Within(&'a str),
    /// Cut. `_meta["dev.tollgate/truncated"]` in it says the same as [`Cut`].
    Cut(String, Cut),
}

/// What was kept of a cut result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Bytes of the result as it came.
    pub bytes: usize,
    /// Items as they came.
    pub items: usize,
    /// Bytes of the items that were kept.
    pub kept_bytes: usize,
    /// Items that were kept, a shortened one counted.
    pub kept_items: usize,
    /// What became of the structured content.
    pub structured: Structured,
}

/// What became of the structured content of a cut result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Structured {
    /// There was none.
    None,
    /// It is whole. Its text form was left out where it didn't fit, never cut.
    Kept,
    /// It is left out; half of it would be something else.
    Dropped,
}

/// Why a result is not passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TooLarge {
    /// More bytes than the cap.
    Bytes {
        /// The result's.
        has: usize,
        /// The cap.
        cap: usize,
    },
    /// More items than the cap.
    Items {
        /// The result's.
        has: usize,
        /// The cap.
        cap: usize,
    },
    /// An image or sound with more decoded bytes than the cap.
    Image {
        /// The largest one's.
        has: usize,
        /// The cap.
        cap: usize,
    },
    /// A blob with more decoded bytes than the cap.
    Blob {
        /// The largest one's.
        has: usize,
        /// The cap.
        cap: usize,
    },
    /// Structured content that doesn't fit, and can't be left out since the tool promises it.
    Structured {
        /// Its bytes.
        has: usize,
        /// The cap of the whole.
        cap: usize,
    },
    /// It is no JSON object.
    Malformed,
}

impl TooLarge {
    /// A short name, one of six: fit for a label.
    pub fn reason(&self) -> &'static str {
        match self {
            TooLarge::Bytes { .. } => "bytes",
            TooLarge::Items { .. } => "items",
            TooLarge::Image { .. } => "image",
            TooLarge::Blob { .. } => "blob",
            TooLarge::Structured { .. } => "structured",
            TooLarge::Malformed => "malformed",
        }
    }
}

impl std::fmt::Display for TooLarge {
    /// What a model can act on.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TooLarge::Bytes { has, cap } => {
                write!(f, "The result has {has} bytes; {cap} are allowed. Ask for less at once.")
            }
            TooLarge::Items { has, cap } => {
                write!(f, "The result has {has} items; {cap} are allowed. Ask for less at once.")
            }
            TooLarge::Image { has, cap } => {
                write!(f, "An image in the result has {has} bytes; {cap} are allowed. Ask for a smaller one.")
            }
            TooLarge::Blob { has, cap } => {
                write!(f, "A file in the result has {has} bytes; {cap} are allowed. Ask for a part of it.")
            }
            TooLarge::Structured { has, cap } => write!(
                f,
                "The structured content has {has} bytes; {cap} are allowed for the whole result, and it can't be \
                 shortened without breaking the tool's output schema. Ask for less at once."
            ),
            TooLarge::Malformed => f.write_str("The result is no JSON object."),
        }
    }
}

impl std::error::Error for TooLarge {}

impl From<Malformed> for TooLarge {
    fn from(_: Malformed) -> TooLarge {
        TooLarge::Malformed
    }
}

impl Caps {
    /// Holds a result to the caps. `promised`: the tool has an output schema, so structured content can't be left out
    /// of a result that is no error.
    ///
    /// # Errors
    /// Why the result can't be passed on, in words for a tool error.
    pub fn apply<'a>(&self, result: &'a str, promised: bool) -> Result<Capped<'a>, TooLarge> {
        let layout = Layout::read(result, self)?;
        let Some(over) = self.over(result, &layout) else { return Ok(Capped::Within(result)) };
        if self.on_too_large == OnTooLarge::Refuse || !layout.can_be_cut() {
            return Err(over);
        }
        cut::cut(result, &layout, self, promised)
    }

    /// Whether so many bytes of a result that still comes in are already too many and can't become few enough: then
    /// reading on is of no use.
    pub fn hopeless(&self, bytes_so_far: usize) -> bool {
        self.on_too_large == OnTooLarge::Refuse && bytes_so_far > self.bytes
    }

    fn over(&self, result: &str, layout: &Layout) -> Option<TooLarge> {
        let over = |has: usize, cap: usize| has > cap;
        if over(layout.items, self.items) {
            return Some(TooLarge::Items { has: layout.items, cap: self.items });
        }
        if over(layout.image, self.image_bytes) {
            return Some(TooLarge::Image { has: layout.image, cap: self.image_bytes });
        }
        if over(layout.blob, self.blob_bytes) {
            return Some(TooLarge::Blob { has: layout.blob, cap: self.blob_bytes });
        }
        over(result.len(), self.bytes).then_some(TooLarge::Bytes { has: result.len(), cap: self.bytes })
    }
}
