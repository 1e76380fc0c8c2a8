//! The settings of a fault in the spec string.

use super::spec::SpecPart;
use crate::error::{Error, Result};
use crate::memory::purpose::{Owner, Purpose};
use std::fmt;
use std::time::Duration;

/// The longest delay of a fault.
pub const LONGEST_DELAY: Duration = Duration::from_secs(60);

/// For errors: the settings of a fault.
pub(super) const KEYS: &str = "a fault takes nth=N, every=N, p=P, p=P:seed=N or delay=TIME, such as fault:nth=3, and with \
    them purpose=NAME and operator=NAME";

/// What a fault layer does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultSpec {
    /// Which requests fail.
    pub trigger: Option<Trigger>,
    /// How long each request is delayed.
    pub delay: Duration,
    /// Only requests for this are counted, failed and delayed.
    pub purpose: Option<Purpose>,
    /// Only requests for this operator; upper and lower case are the same.
    pub operator: Option<String>,
}

/// Which requests fail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trigger {
    /// The one with this number, counted from 1.
    Nth(u64),
    /// Those whose number this divides.
    Every(u64),
    /// Each with probability `p`, from 0 to 1; the seed decides which.
    Chance {
        /// The probability.
        p: f64,
        /// The seed of the random numbers.
        seed: u64,
    },
}

// No probability is NaN: the parser and the documentation ask for 0 to 1.
impl Eq for FaultSpec {}

impl FaultSpec {
    /// True if a request for this is one that the layer counts.
    pub fn concerns(&self, purpose: Purpose, owner: &Owner) -> bool {
        let is_operator = |name: &String| {
            owner.operator.is_some_and(|operator| operator.eq_ignore_ascii_case(name))
        };
        self.purpose.is_none_or(|chosen| chosen == purpose)
            && self.operator.as_ref().is_none_or(is_operator)
    }

    pub(super) fn parse(settings: &[SpecPart<'_>]) -> Result<FaultSpec> {
        let mut fault = FaultSpec::default();
        let (mut seed, mut delay, mut filter) = (None, None, None);
        for part in settings {
            let Some((key, value)) = part.text.split_once('=') else {
                return Err(part.error(KEYS));
            };
            let value = value.trim();
            let number = |low: u64| value.parse::<u64>().ok().filter(|&n| n >= low);
            let from_1 = || number(1).ok_or_else(|| part.error("it takes a number from 1 on"));
            let twice = || part.error("that was given twice");
            let trigger = match key.trim().to_ascii_lowercase().as_str() {
                "nth" => Trigger::Nth(from_1()?),
                "every" => Trigger::Every(from_1()?),
                "p" => match value.parse::<f64>() {
                    Ok(p) if (0.0..=1.0).contains(&p) => Trigger::Chance { p: p.abs(), seed: 0 },
                    _ => return Err(part.error("a probability is a number from 0 to 1")),
                },
                "seed" => {
                    let not_integer = || part.error("a seed is a 64-bit integer");
                    let value = (*part, number(0).ok_or_else(not_integer)?);
                    set_once(&mut seed, value).ok_or_else(twice)?;
                    continue;
                }
                "delay" => {
                    let time = parse_time(value).ok_or_else(|| {
                        part.error("a delay is an integer and ns, us, ms or s, 60s at most")
                    })?;
                    set_once(&mut delay, time).ok_or_else(twice)?;
                    continue;
                }
                "purpose" => {
                    let purpose = parse_purpose(value).ok_or_else(|| no_purpose(part))?;
                    set_once(&mut fault.purpose, purpose).ok_or_else(twice)?;
                    filter = Some(*part);
                    continue;
                }
                "operator" => {
                    if value.is_empty() {
                        return Err(part.error("it takes the name of an operator, such as Sort"));
                    }
                    set_once(&mut fault.operator, value.to_owned()).ok_or_else(twice)?;
                    filter = Some(*part);
                    continue;
                }
                _ => return Err(part.error(KEYS)),
            };
            if fault.trigger.replace(trigger).is_some() {
                return Err(part.error("one of nth, every and p; a second fault layer takes more"));
            }
        }
        match (&mut fault.trigger, seed) {
            (Some(Trigger::Chance { seed, .. }), Some((_, value))) => *seed = value,
            (_, Some((part, _))) => return Err(part.error("a seed goes with p")),
            (_, None) => {}
        }
        match filter {
            Some(part) if fault.trigger.is_none() && delay.is_none() => {
                return Err(part.error("it goes with nth, every, p or delay"));
            }
            _ => {}
        }
        fault.delay = delay.unwrap_or_default();
        Ok(fault)
    }
}

/// `None` if there is a value already.
fn set_once<T>(slot: &mut Option<T>, value: T) -> Option<()> {
    slot.is_none().then(|| *slot = Some(value))
}

/// The purposes that requests of a layer can have: segments of pools pass no layer.
fn purposes() -> impl Iterator<Item = Purpose> {
    Purpose::ALL.into_iter().filter(|purpose| *purpose != Purpose::PoolSegment)
}

/// The name of a purpose as one word.
fn purpose_word(purpose: Purpose) -> String {
    purpose.name().replace(' ', "-")
}

fn parse_purpose(value: &str) -> Option<Purpose> {
    let word = value.to_ascii_lowercase().split_whitespace().collect::<Vec<_>>().join("-");
    purposes().find(|purpose| purpose_word(*purpose) == word)
}

fn no_purpose(part: &SpecPart<'_>) -> Error {
    let known: Vec<_> = purposes().map(purpose_word).collect();
    part.error(&format!("no such purpose; there are {}", known.join(", ")))
}

impl fmt::Display for FaultSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("fault")?;
        match self.trigger {
            Some(Trigger::Nth(nth)) => write!(f, ":nth={nth}")?,
            Some(Trigger::Every(every)) => write!(f, ":every={every}")?,
            Some(Trigger::Chance { p, seed: 0 }) => write!(f, ":p={p}")?,
            Some(Trigger::Chance { p, seed }) => write!(f, ":p={p}:seed={seed}")?,
            None => {}
        }
        if !self.delay.is_zero() || self.trigger.is_none() {
            write!(f, ":delay={}", Time(self.delay))?;
        }
        if let Some(purpose) = self.purpose {
            write!(f, ":purpose={}", purpose_word(purpose))?;
        }
        match &self.operator {
            Some(operator) => write!(f, ":operator={operator}"),
            None => Ok(()),
        }
    }
}

const TIMES: [(u64, &str); 4] = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")];

/// A time in the largest unit that divides it.
struct Time(Duration);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0.as_nanos() as u64;
        let (unit, name) =
            TIMES.into_iter().find(|(unit, _)| ns.is_multiple_of(*unit)).expect("1 divides");
        write!(f, "{}{name}", ns / unit)
    }
}

fn parse_time(text: &str) -> Option<Duration> {
    let text = text.to_ascii_lowercase();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let (factor, _) = TIMES.into_iter().find(|(_, name)| *name == unit.trim())?;
    let time = Duration::from_nanos(number.parse::<u64>().ok()?.checked_mul(factor)?);
    (time <= LONGEST_DELAY).then_some(time)
}
