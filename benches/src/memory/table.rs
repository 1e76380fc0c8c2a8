//! Nanoseconds by candidate and workload, printed as one table and kept for the goals.

use super::available::POOL;
use crate::measure::Figure;
use serde_json::{Value, json};

/// Rows are candidates, columns are workloads, both in the order in which they came.
#[derive(Default)]
pub struct Table {
    columns: Vec<(String, Vec<(&'static str, Figure)>)>,
}

impl Table {
    /// Adds a workload.
    pub fn add(&mut self, column: &str, figures: Vec<(&'static str, Figure)>) {
        eprintln!("  {column}: {} candidates", figures.len());
        self.columns.push((column.to_owned(), figures));
    }

    /// One figure, if it was taken.
    pub fn figure(&self, column: &str, row: &str) -> Option<Figure> {
        let (_, figures) = self.columns.iter().find(|(name, _)| name == column)?;
        figures.iter().find(|(name, _)| *name == row).map(|(_, figure)| *figure)
    }

    /// The best slices; beside each the pool's time divided by it.
    pub fn print(&self) {
        print!("{:<24}", "ns per allocate + free");
        self.columns.iter().for_each(|(name, _)| print!(" {name:>15}"));
        println!();
        for row in self.rows() {
            print!("{row:<24}");
            for (column, _) in &self.columns {
                let cell = match (self.figure(column, row), self.figure(column, POOL)) {
                    (None, _) => "-".to_owned(),
                    (Some(own), Some(pool)) if row != POOL => {
                        format!("{} {:>6}", short(own.best), ratio(pool.best / own.best))
                    }
                    (Some(own), _) => format!("{} {:>6}", short(own.best), ""),
                };
                print!(" {cell:>15}");
            }
            println!();
        }
    }

    fn rows(&self) -> Vec<&'static str> {
        let mut rows = Vec::new();
        for (name, _) in self.columns.iter().flat_map(|(_, figures)| figures) {
            if !rows.contains(name) {
                rows.push(*name);
            }
        }
        rows
    }

    /// All figures.
    pub fn json(&self) -> Value {
        let cell = |column: &str, (row, figure): &(&str, Figure)| {
            let pool = self.figure(column, POOL).map(|pool| pool.best / figure.best);
            json!({
                "workload": column, "allocator": row, "best_ns": figure.best,
                "median_ns": figure.median, "pool_over_this": pool,
            })
        };
        let columns = self.columns.iter();
        columns.flat_map(|(name, figures)| figures.iter().map(move |f| cell(name, f))).collect()
    }
}

fn short(ns: f64) -> String {
    if ns < 100.0 { format!("{ns:.1}") } else { format!("{ns:.0}") }
}

fn ratio(value: f64) -> String {
    if value < 0.1 { format!("{value:.3}x") } else { format!("{value:.2}x") }
}

/// A size in words.
pub fn bytes(n: usize) -> String {
    match n {
        n if n >= 1 << 20 => format!("{} MiB", n >> 20),
        n if n >= 1 << 10 => format!("{} KiB", n >> 10),
        n => format!("{n} B"),
    }
}
