//! A moment of a record that a user asks about.

use std::str::FromStr;

use crate::history::History;

/// When.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Moment {
    /// When the blocks of a device had the most bytes. Memory that is divided counts by what is inside of it.
    Peak,
    /// After the last entry.
    End,
    /// This many nanoseconds after the beginning.
    At(u64),
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Moment, String> {
        match text {
            "peak" => return Ok(Moment::Peak),
            "end" => return Ok(Moment::End),
            _ => {}
        }
        let units = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
        let unit = units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)));
        let (number, factor) = unit.unwrap_or((text, &1e9));
        match number.trim().parse::<f64>() {
            Ok(number) if number >= 0.0 && number.is_finite() => {
                Ok(Moment::At((number * factor) as u64))
            }
            _ => Err(format!("`{text}` is not `peak`, `end` or a time such as `1.5s` or `20ms`")),
        }
    }
}

impl Moment {
    /// The time of the moment, for the memory of a device (`None`: of the host).
    pub fn time_ns(self, history: &History, device: Option<u32>) -> u64 {
        match self {
            Moment::At(time_ns) => time_ns,
            Moment::End => history.end_ns,
            Moment::Peak => peak_ns(history, device),
        }
    }
}

fn peak_ns(history: &History, device: Option<u32>) -> u64 {
    let inner = history.lives.blocks().iter().filter(|b| !b.is_divided && b.device() == device);
    let mut steps: Vec<(u64, i64)> = inner
        .flat_map(|block| {
            let freed = block.freed_ns.map(|time_ns| (time_ns, -(block.bytes as i64)));
            [Some((block.made_ns, block.bytes as i64)), freed].into_iter().flatten()
        })
        .collect();
    // At one time frees come first: what was freed and taken again never counted twice.
    steps.sort_unstable();
    let (mut live, mut peak, mut peak_ns) = (0i64, 0, 0);
    for (time_ns, bytes) in steps {
        live += bytes;
        if live > peak {
            (peak, peak_ns) = (live, time_ns);
        }
    }
    peak_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read() {
        assert_eq!("peak".parse(), Ok(Moment::Peak));
        assert_eq!("1.5s".parse(), Ok(Moment::At(1_500_000_000)));
        assert_eq!("20ms".parse(), Ok(Moment::At(20_000_000)));
        assert_eq!("2".parse(), Ok(Moment::At(2_000_000_000)));
        for wrong in ["", "-1s", "later", "infs"] {
            assert!(wrong.parse::<Moment>().unwrap_err().contains(wrong));
        }
    }
}
