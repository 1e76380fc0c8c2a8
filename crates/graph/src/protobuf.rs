//! Foreign protobuf messages, looked at before they are decoded.
//!
//! A message without fields is two bytes long, and a hundred when read. So the bytes are walked once along the
//! messages they hold, and a model that is mostly such empty messages is refused.

/// How many bytes of memory the messages of a model may take for each of its own bytes. Real models take
/// less than ten; lists grow by doubling, so that three times this may be in use for a moment.
const MAX_BYTES_PER_BYTE: usize = 32;

/// What every model may take, however short.
const MIN_BUDGET: usize = 1 << 20;

/// How deep messages may lie in each other; the decoder ends there too.
const MAX_DEPTH: usize = 100;

/// A kind of message of a format.
pub trait Message: Copy + PartialEq {
    /// The kind without messages of its own.
    const LEAF: Self;

    /// The message in a field, and what it takes when read; `None` for a field that holds none.
    fn field(self, tag: u64) -> Option<(Self, usize)>;
}

/// Refuses bytes that would take far more memory than their length, that nest too deeply, or that end in
/// the middle of a field. Whether the rest is right is for the decoder to say. `what` is what they should be.
pub fn check<M: Message>(bytes: &[u8], root: M, what: &str) -> Result<(), String> {
    let allowed = bytes.len().saturating_mul(MAX_BYTES_PER_BYTE).saturating_add(MIN_BUDGET);
    let mut walker = Walker { budget: allowed };
    walker.message(bytes, root, 0).map_err(|fault| match fault {
        Fault::Heavy => format!(
            "The model has {} bytes, and its messages would take more than {allowed}: most of them are \
             empty. A graph that a program wrote does not look like this.",
            bytes.len()
        ),
        Fault::Deep => format!("The model has messages that lie more than {MAX_DEPTH} deep."),
        Fault::Broken(rest) => format!(
            "The bytes are no {what}: the field {rest} bytes before the end of its message is cut off or of no known kind."
        ),
    })
}

/// Why bytes are refused.
enum Fault {
    /// They would take too much memory.
    Heavy,
    /// They nest too deeply.
    Deep,
    /// The field this many bytes before the end of its message cannot be read.
    Broken(usize),
}

/// Goes through the messages of a model.
struct Walker {
    /// Bytes of memory that they may still take.
    budget: usize,
}

impl Walker {
    fn message<M: Message>(
        &mut self,
        mut bytes: &[u8],
        kind: M,
        depth: usize,
    ) -> Result<(), Fault> {
        if depth > MAX_DEPTH {
            return Err(Fault::Deep);
        }
        while !bytes.is_empty() {
            let length = bytes.len();
            let (tag, body) = field(&mut bytes).ok_or(Fault::Broken(length))?;
            let Some((kind, weight)) = kind.field(tag) else { continue };
            self.budget = self.budget.checked_sub(weight).ok_or(Fault::Heavy)?;
            if let (Some(body), false) = (body, kind == M::LEAF) {
                self.message(body, kind, depth + 1)?;
            }
        }
        Ok(())
    }
}

/// The number of the next field, and its bytes if it has a length.
fn field<'a>(bytes: &mut &'a [u8]) -> Option<(u64, Option<&'a [u8]>)> {
    let key = varint(bytes)?;
    let length = match key & 7 {
        0 => return varint(bytes).map(|_| (key >> 3, None)),
        1 => 8,
        2 => usize::try_from(varint(bytes)?).ok()?,
        5 => 4,
        _ => return None,
    };
    let (body, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some((key >> 3, (key & 7 == 2).then_some(body)))
}

/// A number in the variable-length encoding of protobuf.
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..70).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(first & 0x7f).checked_shl(shift).unwrap_or(0);
        if *first < 0x80 {
            return Some(value);
        }
    }
    None
}
