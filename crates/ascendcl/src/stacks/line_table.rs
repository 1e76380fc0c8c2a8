//! Which line of Python an instruction belongs to, from the table of a code object.

/// The formats of tables, by the versions of Python that write them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineTable {
    /// 3.10: pairs of bytes of code and lines.
    Pairs,
    /// From 3.11 on: entries of a head and numbers of six bits a byte.
    Locations,
}

impl LineTable {
    /// The line of an instruction, counted in code units of two bytes; the first line where the table has none.
    pub fn line(self, table: &[u8], first_line: u32, instruction: usize) -> u32 {
        let line = match self {
            LineTable::Pairs => line_of_pairs(table, first_line, instruction),
            LineTable::Locations => line_of_locations(table, first_line, instruction),
        };
        line.and_then(|line| u32::try_from(line).ok()).unwrap_or(first_line)
    }
}

fn line_of_pairs(table: &[u8], first_line: u32, instruction: usize) -> Option<i64> {
    const NO_LINE: i8 = -128;
    let (mut end, mut line) = (0, i64::from(first_line));
    for pair in table.chunks_exact(2) {
        end += usize::from(pair[0]);
        let delta = pair[1] as i8;
        line += if delta == NO_LINE { 0 } else { i64::from(delta) };
        if instruction * 2 < end {
            return (delta != NO_LINE).then_some(line);
        }
    }
    None
}

fn line_of_locations(table: &[u8], first_line: u32, instruction: usize) -> Option<i64> {
    const HEAD: u8 = 0x80;
    let (mut end, mut line) = (0, i64::from(first_line));
    let mut rest = table;
    while let Some((head, tail)) = rest.split_first() {
        if head & HEAD == 0 {
            return None;
        }
        let length = tail.iter().position(|byte| byte & HEAD != 0).unwrap_or(tail.len());
        let (numbers, next) = tail.split_at(length);
        rest = next;
        end += usize::from(head & 7) + 1;
        let code = head >> 3 & 15;
        line += match code {
            10..=12 => i64::from(code - 10),
            13 | 14 => signed(numbers),
            _ => 0,
        };
        if instruction < end {
            return (code != 15).then_some(line);
        }
    }
    None
}

/// The first number: six bits a byte, the lowest first, and the sign in the lowest bit.
fn signed(bytes: &[u8]) -> i64 {
    const GOES_ON: u8 = 0x40;
    let mut value = 0u64;
    for (byte, shift) in bytes.iter().zip((0..60).step_by(6)) {
        value |= u64::from(byte & 0x3f) << shift;
        if byte & GOES_ON == 0 {
            break;
        }
    }
    let magnitude = (value >> 1) as i64;
    if value & 1 == 0 { magnitude } else { -magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_name_the_line_of_each_instruction() {
        // Two units without a new line, one on the next, three that go back by two lines, one without a line.
        let table =
            [0x80 | 1, 0x11, 0x80 | 11 << 3, 0x11, 0x22, 0x80 | 13 << 3 | 2, 0b101, 0x80 | 15 << 3];
        let line = |instruction| LineTable::Locations.line(&table, 10, instruction);
        assert_eq!([0, 1, 2, 3, 5].map(line), [10, 10, 11, 9, 9]);
        assert_eq!(line(6), 10, "no line of its own");
        assert_eq!(line(100), 10, "beyond the table");
    }

    #[test]
    fn long_numbers_and_broken_tables_end() {
        let table = [0x80 | 14 << 3, 0x40 | 0x28, 0x03, 0, 0, 0];
        assert_eq!(LineTable::Locations.line(&table, 1, 0), 1 + (0x28 | 3 << 6) / 2);
        assert_eq!(LineTable::Locations.line(&[1, 2, 3], 7, 0), 7);
        assert_eq!(LineTable::Locations.line(&[0x80 | 13 << 3; 5], 7, 9), 7);
        assert_eq!(
            LineTable::Locations.line(
                &[0x80 | 13 << 3, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f],
                7,
                0
            ),
            7
        );
    }

    #[test]
    fn pairs_name_the_line_of_each_instruction() {
        let table = [4, 1, 2, 0x80, 2, 0xfe];
        let line = |instruction| LineTable::Pairs.line(&table, 10, instruction);
        assert_eq!([0, 1, 2, 3, 4].map(line), [11, 11, 10, 9, 10]);
    }
}
