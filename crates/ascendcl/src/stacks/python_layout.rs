//! Where the interpreter keeps what a stack is made of, by its version: offsets in bytes, on 64-bit machines.

use super::line_table::LineTable;

/// How to get from a thread to its frames and from a frame to its line.
#[derive(Debug)]
pub(super) struct Layout {
    /// From the state of a thread to its innermost frame: each word on the way but the last is an address.
    pub innermost: &'static [usize],
    /// In a frame: its code.
    pub code: usize,
    /// In a frame: the one that called it.
    pub previous: usize,
    /// In a frame: the instruction.
    pub instruction: Instruction,
    /// In a code object: its name, with that of its class where there is one.
    pub name: usize,
    /// In a code object: its file.
    pub file: usize,
    /// In a code object: its first line, four bytes.
    pub first_line: usize,
    /// In a code object: the table of lines.
    pub lines: usize,
    /// What that table is.
    pub line_table: LineTable,
    /// In a text: its characters if all are ASCII; and if not.
    pub characters: (usize, usize),
}

/// How a frame says which instruction it is at.
#[derive(Debug)]
pub(super) enum Instruction {
    /// Its number, four bytes, at this offset.
    Number(usize),
    /// Its address at the first offset; the instructions of a code object begin at the second.
    Address(usize, usize),
}

/// In every object: its type.
pub(super) const TYPE: usize = 8;
/// In a text: how many characters it has.
pub(super) const TEXT_LENGTH: usize = 16;
/// In a text: bits that say how it is stored.
pub(super) const TEXT_STATE: usize = 32;
/// In bytes: how many there are.
pub(super) const BYTES_LENGTH: usize = 16;
/// In bytes: the first.
pub(super) const BYTES: usize = 32;

static PYTHON_3_10: Layout = Layout {
    innermost: &[24],
    code: 32,
    previous: 24,
    instruction: Instruction::Number(96),
    name: 112,
    file: 104,
    first_line: 40,
    lines: 120,
    line_table: LineTable::Pairs,
    characters: (48, 72),
};

static PYTHON_3_11: Layout = Layout {
    innermost: &[56, 8],
    code: 32,
    previous: 48,
    instruction: Instruction::Address(56, 184),
    name: 128,
    file: 112,
    first_line: 72,
    lines: 136,
    line_table: LineTable::Locations,
    characters: (48, 72),
};

static PYTHON_3_12: Layout = Layout {
    innermost: &[56, 0],
    code: 0,
    previous: 8,
    instruction: Instruction::Address(56, 192),
    name: 128,
    file: 112,
    first_line: 68,
    lines: 136,
    line_table: LineTable::Locations,
    characters: (40, 56),
};

static PYTHON_3_13: Layout = Layout {
    innermost: &[72],
    code: 0,
    previous: 8,
    instruction: Instruction::Address(56, 200),
    name: 128,
    file: 112,
    first_line: 68,
    lines: 136,
    line_table: LineTable::Locations,
    characters: (40, 56),
};

/// The layout of a version, such as "3.11.2 (main, ..)"; `None` for those that are not known, and for builds without the
/// interpreter's lock.
pub(super) fn of_version(version: &str) -> Option<&'static Layout> {
    let mut numbers = version.split(['.', ' ']);
    if version.contains("free-threading") || numbers.next() != Some("3") {
        return None;
    }
    match numbers.next()? {
        "10" => Some(&PYTHON_3_10),
        "11" => Some(&PYTHON_3_11),
        "12" => Some(&PYTHON_3_12),
        "13" => Some(&PYTHON_3_13),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_known_or_left_alone() {
        let first_line = |version| of_version(version).map(|layout| layout.first_line);
        assert_eq!(first_line("3.11.2 (main, Apr 28 2025)"), Some(72));
        assert_eq!(first_line("3.13.0 (main, ..)"), Some(68));
        assert_eq!(first_line("3.13.0 experimental free-threading build (main, ..)"), None);
        assert_eq!(first_line("3.99.0 (main, ..)"), None);
        assert_eq!(first_line("2.7.18"), None);
    }
}
