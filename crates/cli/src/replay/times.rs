//! How long calls take.

use serde_json::{Value, json};

/// Nanoseconds of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Half of the calls take no longer.
    pub median_ns: u64,
    /// 99 of 100 calls take no longer.
    pub p99_ns: u64,
}

impl Times {
    /// Of these calls; `None` if there are none.
    pub fn of(mut ns: Vec<u64>) -> Option<Times> {
        ns.sort_unstable();
        let at = |part: usize| ns.get((ns.len() * part / 100).min(ns.len().saturating_sub(1)));
        Some(Times { median_ns: *at(50)?, p99_ns: *at(99)? })
    }

    /// As JSON.
    pub fn json(self) -> Value {
        json!({"median_ns": self.median_ns, "p99_ns": self.p99_ns})
    }

    /// From JSON.
    pub fn parse(value: &Value) -> Option<Times> {
        let field = |name: &str| value.get(name)?.as_u64();
        Some(Times { median_ns: field("median_ns")?, p99_ns: field("p99_ns")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks() {
        assert_eq!(Times::of(Vec::new()), None);
        assert_eq!(Times::of(vec![7]), Some(Times { median_ns: 7, p99_ns: 7 }));
        let times = Times::of((0..1000).rev().collect()).unwrap();
        assert_eq!((times.median_ns, times.p99_ns), (500, 990));
        assert_eq!(Times::parse(&times.json()), Some(times));
    }
}
