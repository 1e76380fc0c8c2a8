//! Lists of numbers for a page: one after the other in binary, with a table of what is where.

use serde_json::{Value, json};

/// Numbers of one column.
pub enum Column {
    Bytes(Vec<u8>),
    Integers(Vec<i32>),
    Floats(Vec<f64>),
}

/// Columns by name.
#[derive(Default)]
pub struct Columns {
    bytes: Vec<u8>,
    table: Vec<Value>,
}

impl Columns {
    /// Appends a column. Each begins at a multiple of eight bytes, so that a page can look at it where it lies.
    pub fn push(&mut self, name: &str, column: Column) {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        let offset = self.bytes.len();
        let (kind, count) = match column {
            Column::Bytes(values) => {
                self.bytes.extend_from_slice(&values);
                ("u8", values.len())
            }
            Column::Integers(values) => {
                self.bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
                ("i32", values.len())
            }
            Column::Floats(values) => {
                self.bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
                ("f64", values.len())
            }
        };
        self.table.push(json!({"name": name, "type": kind, "offset": offset, "count": count}));
    }

    /// Where each column is.
    pub fn table(&self) -> &[Value] {
        &self.table
    }

    /// All of them.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
