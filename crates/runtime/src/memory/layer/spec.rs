//! The spec string: which layers, in which order, with which settings.
//!
//! ```text
//! spec   = "" | layer ("," layer)*          outermost first, at most 16
//! layer  = "stats" | "guard" [":external"] | "limit:" size | "fault" (":" key "=" value)+ | "no-host-access"
//! key    = "nth" | "every" | "p" | "seed" | "delay" | "purpose" | "operator"
//! ```
//!
//! Spaces around words are ignored, and so is case.

use super::fault_spec::{FaultSpec, KEYS};
use super::{Fault, Guard, Layer, Limit, Stack, Stats};
use crate::config::parse_bytes;
use crate::error::{Error, Result};
use std::fmt;

/// The most layers that a spec may have.
pub const MAX_LAYERS: usize = 16;

/// Which layers lie over memory, outermost first. `Display` gives the string back that
/// [`Spec::parse`] reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spec {
    /// The layers.
    pub layers: Vec<Choice>,
}

/// One layer and its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Counts blocks and bytes.
    Stats,
    /// Canaries and poison.
    Guard {
        /// Canaries also around blocks of the user's own allocators, which makes them larger.
        external: bool,
    },
    /// A limit on live bytes.
    Limit(u64),
    /// Injected failures and delays.
    Fault(FaultSpec),
    /// No layer: device memory that the program itself cannot touch ([`crate::memory::protected`]).
    NoHostAccess,
}

/// Which maker the layers are over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MakerKind {
    /// Memory of a device: its arena, its pools.
    Device,
    /// Pinned memory of the host. It belongs to no device, so limits do not count it.
    Pinned,
    /// A user allocator.
    External,
}

impl Spec {
    /// Reads a spec string. An error names the part that cannot be used, its position, and what is possible
    /// there.
    pub fn parse(text: &str) -> Result<Spec> {
        if text.trim().is_empty() {
            return Ok(Spec::default());
        }
        let parts: Vec<_> = SpecPart { position: 1, text }.split(',').collect();
        if parts.len() > MAX_LAYERS {
            return Err(parts[MAX_LAYERS].error(&format!("there may be {MAX_LAYERS} layers")));
        }
        let layers = parts.into_iter().map(Choice::parse).collect::<Result<_>>()?;
        Ok(Spec { layers })
    }

    /// True if there is no layer.
    pub fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    /// True if the program itself must not touch device memory.
    pub fn is_protected(&self) -> bool {
        self.layers.contains(&Choice::NoHostAccess)
    }

    /// New layers, for the memory of a device.
    pub fn build(&self) -> Stack {
        Stack::new(self.build_over(MakerKind::Device).collect())
    }

    /// New layers, outermost first.
    pub fn build_over(&self, below: MakerKind) -> impl Iterator<Item = Box<dyn Layer>> {
        self.layers.iter().filter_map(move |choice| choice.build(below))
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layers: Vec<_> = self.layers.iter().map(Choice::to_string).collect();
        f.write_str(&layers.join(","))
    }
}

/// For errors: the layers that there are.
const LAYERS: &str = "the layers are stats, guard, guard:external, limit:SIZE, fault:nth=N, fault:every=N, fault:p=P:seed=N, fault:delay=TIME, fault:nth=N:purpose=NAME, fault:nth=N:operator=NAME, no-host-access";
impl Choice {
    fn parse(part: SpecPart<'_>) -> Result<Choice> {
        let mut words = part.split(':');
        let name = words.next().unwrap_or(part);
        let settings: Vec<_> = words.collect();
        match (name.word().as_str(), &settings[..]) {
            ("stats", []) => Ok(Choice::Stats),
            ("stats", [more, ..]) => Err(more.error("stats takes no setting")),
            ("guard", []) => Ok(Choice::Guard { external: false }),
            ("guard", [only]) if only.word() == "external" => Ok(Choice::Guard { external: true }),
            ("guard", [more, ..]) => Err(more.error("guard takes no setting, or external")),
            ("limit", [size]) => match parse_bytes(size.text) {
                Some(bytes) if bytes > 0 => Ok(Choice::Limit(bytes)),
                _ => Err(size.error("a limit is a size from 1 on, such as 512mib or 8gib")),
            },
            ("limit", []) => Err(name.error("limit takes a size, such as limit:8gib")),
            ("limit", [_, more, ..]) => Err(more.error("limit takes one size, such as limit:8gib")),
            ("no-host-access", []) => Ok(Choice::NoHostAccess),
            ("no-host-access", [more, ..]) => Err(more.error("no-host-access takes no setting")),
            ("fault", []) => Err(name.error(KEYS)),
            ("fault", settings) => FaultSpec::parse(settings).map(Choice::Fault),
            ("", _) => Err(name.error(&format!("a layer is missing; {LAYERS}"))),
            _ => Err(name.error(&format!("there is no such layer; {LAYERS}"))),
        }
    }

    fn build(&self, below: MakerKind) -> Option<Box<dyn Layer>> {
        Some(match self {
            Choice::Stats => Box::new(Stats::default()),
            Choice::Guard { external } => {
                Box::new(Guard::new(below != MakerKind::External || *external))
            }
            Choice::Limit(_) if below == MakerKind::Pinned => return None,
            Choice::Limit(bytes) => Box::new(Limit::new(*bytes)),
            Choice::Fault(spec) => Box::new(Fault::new(spec.clone())),
            Choice::NoHostAccess => return None,
        })
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Choice::Stats => f.write_str("stats"),
            Choice::Guard { external: false } => f.write_str("guard"),
            Choice::Guard { external: true } => f.write_str("guard:external"),
            Choice::Limit(bytes) => write!(f, "limit:{}", Size(*bytes)),
            Choice::Fault(fault) => fault.fmt(f),
            Choice::NoHostAccess => f.write_str("no-host-access"),
        }
    }
}

/// A part of the spec string, and the number of its first character.
#[derive(Clone, Copy)]
pub(super) struct SpecPart<'a> {
    position: usize,
    pub text: &'a str,
}

impl<'a> SpecPart<'a> {
    fn split(self, separator: char) -> impl Iterator<Item = SpecPart<'a>> {
        let mut position = self.position;
        self.text.split(separator).map(move |text| {
            let part = SpecPart { position, text };
            position += text.chars().count() + 1;
            part
        })
    }

    fn word(&self) -> String {
        self.text.trim().to_ascii_lowercase()
    }

    pub fn error(&self, reason: &str) -> Error {
        let leading_spaces = self.text.chars().take_while(|c| c.is_whitespace()).count();
        Error::invalid(format!(
            "'{}' at character {}: {reason}",
            self.text.trim(),
            self.position + leading_spaces
        ))
    }
}

/// Bytes in the largest unit that divides them.
pub(super) struct Size(pub u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(40, "tib"), (30, "gib"), (20, "mib"), (10, "kib"), (0, "")];
        let (shift, unit) = units
            .into_iter()
            .find(|(shift, _)| self.0.is_multiple_of(1 << shift))
            .expect("1 divides");
        write!(f, "{}{unit}", self.0 >> shift)
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::super::fault_spec::Trigger;
    use super::*;
    use crate::memory::purpose::Purpose;
    use proptest::prelude::*;
    use std::time::Duration;

    fn fault() -> impl Strategy<Value = FaultSpec> {
        let trigger = prop_oneof![
            (1..=u64::MAX).prop_map(Trigger::Nth),
            (1..=u64::MAX).prop_map(Trigger::Every),
            (0.0..=1.0f64, any::<u64>()).prop_map(|(p, seed)| Trigger::Chance { p, seed }),
        ];
        let delay = prop_oneof![0..=60_000_000_000u64, (0..=60u64).prop_map(|s| s * 1_000_000_000)];
        let purpose = prop::option::of(prop::sample::select(&[
            Purpose::User,
            Purpose::Fixed,
            Purpose::Workspace,
            Purpose::HostCopy,
        ]));
        let operator = prop::option::of("[A-Za-z][A-Za-z0-9_]{0,12}");
        (prop::option::of(trigger), delay.prop_map(Duration::from_nanos), purpose, operator)
            .prop_map(|(trigger, delay, purpose, operator)| FaultSpec {
                trigger,
                delay,
                purpose,
                operator,
            })
    }

    fn spec() -> impl Strategy<Value = Spec> {
        let choice = prop_oneof![
            Just(Choice::Stats),
            any::<bool>().prop_map(|external| Choice::Guard { external }),
            (1..=u64::MAX).prop_map(Choice::Limit),
            (0..44u32, 1..1024u64).prop_map(|(shift, n)| Choice::Limit(n << shift)),
            fault().prop_map(Choice::Fault),
        ];
        prop::collection::vec(choice, 0..=MAX_LAYERS).prop_map(|layers| Spec { layers })
    }

    proptest! {
        #[test]
        fn a_spec_survives_its_own_string(spec in spec()) {
            prop_assert_eq!(Spec::parse(&spec.to_string()).unwrap(), spec);
        }

        #[test]
        fn any_text_is_read_or_refused(text in prop_oneof![
            ".*",
            "[ ,:=a-z0-9.]{0,40}",
            "((stats|guard|limit|fault|external|nth|every|p|seed|delay|purpose|operator)?[,:=]?([0-9.]{0,4}|8gib|2ms|workspace)?[,:=]?){0,8}",
        ]) {
            match Spec::parse(&text) {
                Ok(spec) => prop_assert_eq!(Spec::parse(&spec.to_string()).unwrap(), spec),
                Err(error) => prop_assert!(error.text.contains(" at character "), "{}", error.text),
            }
        }

        #[test]
        fn a_wrong_layer_is_named_with_its_position(spec in spec(), index in 0..MAX_LAYERS) {
            let mut parts: Vec<_> = spec.layers.iter().map(Choice::to_string).collect();
            let index = index.min(parts.len());
            parts.insert(index, " gard".into());
            let text = parts.join(",");
            let position = parts[..index].iter().map(|part| part.len() + 1).sum::<usize>() + 2;
            prop_assume!(parts.len() <= MAX_LAYERS);
            let error = Spec::parse(&text).unwrap_err().text;
            prop_assert!(error.starts_with(&format!("'gard' at character {position}: ")), "{}", error);
        }
    }

    #[test]
    fn the_example_reads_as_it_says() {
        let spec = Spec::parse(" Limit:8GiB, guard ,stats,fault:p=0.01:seed=7:delay=2ms").unwrap();
        let trigger = Some(Trigger::Chance { p: 0.01, seed: 7 });
        assert_eq!(
            spec.layers,
            [
                Choice::Limit(8 << 30),
                Choice::Guard { external: false },
                Choice::Stats,
                Choice::Fault(FaultSpec {
                    trigger,
                    delay: Duration::from_millis(2),
                    ..FaultSpec::default()
                }),
            ]
        );
        assert_eq!(spec.to_string(), "limit:8gib,guard,stats,fault:p=0.01:seed=7:delay=2ms");
        assert!(Spec::parse("  ").unwrap().is_empty());
        let spec = Spec::parse("fault:nth=2:purpose=Host Input:operator=Sort").unwrap();
        assert_eq!(spec.to_string(), "fault:nth=2:purpose=host-input:operator=Sort");
    }

    #[test]
    fn errors_name_the_part_and_what_is_possible() {
        for (text, part, reason) in [
            ("stats,", "'' at character 7", "the layers are stats, guard"),
            ("stats,limits:3", "'limits' at character 7", "limit:SIZE"),
            ("limit", "'limit' at character 1", "limit:8gib"),
            ("limit:0", "'0' at character 7", "from 1 on"),
            ("limit:many", "'many' at character 7", "8gib"),
            ("limit:1:2", "'2' at character 9", "one size"),
            ("stats:3", "'3' at character 7", "no setting"),
            ("guard:outside", "'outside' at character 7", "external"),
            ("fault", "'fault' at character 1", "fault:nth=3"),
            ("fault:3", "'3' at character 7", "nth=N"),
            ("fault:nth=0", "'nth=0' at character 7", "from 1 on"),
            ("fault:p=1.5", "'p=1.5' at character 7", "from 0 to 1"),
            ("fault:p=nan", "'p=nan' at character 7", "from 0 to 1"),
            ("fault:seed=3", "'seed=3' at character 7", "goes with p"),
            ("fault:nth=1:every=2", "'every=2' at character 13", "one of"),
            ("fault:delay=2ms:delay=3ms", "'delay=3ms' at character 17", "twice"),
            ("fault:delay=61s", "'delay=61s' at character 7", "60s"),
            ("fault:delay=2", "'delay=2' at character 7", "ns, us, ms or s"),
            ("fault:purpose=workspace", "'purpose=workspace' at character 7", "it goes with nth"),
            (
                "fault:nth=1:purpose=pool-segment",
                "'purpose=pool-segment' at character 13",
                "host-input",
            ),
            ("fault:nth=1:operator=", "'operator=' at character 13", "Sort"),
            ("fault:nth=1:operator=A:operator=B", "'operator=B' at character 24", "twice"),
            ("fault:after=2", "'after=2' at character 7", "nth=N"),
            ("é,é", "'é' at character 1", "no such layer"),
            ("stats,é", "'é' at character 7", "no such layer"),
        ] {
            let error = Spec::parse(text).unwrap_err().text;
            assert!(error.starts_with(part) && error.contains(reason), "{text}: {error}");
        }
        let many = vec!["stats"; MAX_LAYERS + 1].join(",");
        let error = Spec::parse(&many).unwrap_err().text;
        assert!(error.starts_with("'stats' at character 97: there may be 16"), "{error}");
    }
}
