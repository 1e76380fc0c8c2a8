//! Options: of the engine, a session, a graph or a load, the more specific ones first.

use super::option_table::{Level, find};
use crate::executable::CompileOptions;
use crate::failure::{Failure, Result};
use crate::ir::Desc;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Options by key. Each known one has a value that it takes; unknown keys are kept without effect. An empty value
/// counts as none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options(BTreeMap<String, String>);

pub(super) const DEVICE: &str = "ge.exec.deviceId";
pub(super) const SESSION_DEVICE: &str = "ge.session_device_id";
pub(super) const HOST_INPUTS: &str = "ge.exec.hostInputIndexes";
pub(super) const FROZEN_INPUTS: &str = "ge.exec.frozenInputIndexes";
pub(super) const REFRESHABLE: &str = "ge.featureBaseRefreshable";
pub(super) const REUSE: &str = "ge.exec.outputReuseInputMemIndexes";
pub(super) const STATIC_POLICY: &str = "ge.exec.staticMemoryPolicy";
pub(super) const LEVEL: &str = "ge.oo.level";
pub(super) const FOLDING: &str = "ge.oo.constantFolding";

/// The device that an option asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceOption {
    /// The option.
    pub key: &'static str,
    /// The number of the device.
    pub device: u32,
}

impl Options {
    /// From keys and values. An empty key, or a value that a known option does not take, is an error that names it.
    pub fn new(pairs: impl IntoIterator<Item = (String, String)>) -> Result<Options> {
        let options = Options(pairs.into_iter().collect());
        if let Some(value) = options.0.get("") {
            return Err(Failure::invalid(format!(
                "E10059: an option with the value '{value}' has no key"
            )));
        }
        for setting in options.settings() {
            if let Some(known) = find(setting.key) {
                known.check(&setting)?;
            }
        }
        Ok(options)
    }

    /// A warning that names the options without an effect at this level, and the unknown ones.
    pub fn without_effect(&self, level: Level) -> Option<String> {
        let (mut ignored, mut unknown) = (Vec::new(), Vec::new());
        for setting in self.settings() {
            match find(setting.key) {
                None => unknown.push(setting.to_string()),
                Some(known) if known.is_without_effect(setting.value, level) => {
                    ignored.push(setting.to_string());
                }
                Some(_) => {}
            }
        }
        let list = |what: &str, options: Vec<String>| {
            (!options.is_empty()).then(|| format!("{what}: {}", options.join(", ")))
        };
        let parts = [
            list("options taken without effect", ignored),
            list("unknown options, taken without effect", unknown),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    fn settings(&self) -> impl Iterator<Item = Setting<'_>> {
        let all = self.0.iter().map(|(key, value)| Setting { key, value: value.trim() });
        all.filter(|setting| !setting.value.is_empty())
    }

    /// These, and those of `defaults` that are not among them.
    pub fn with_defaults(&self, defaults: &Options) -> Options {
        let mut all = defaults.clone();
        all.0.extend(self.0.clone());
        all
    }

    /// The value of an option that is set.
    fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(|text| text.trim()).filter(|text| !text.is_empty())
    }

    fn option<'a>(&'a self, key: &'a str) -> Setting<'a> {
        Setting { key, value: self.text(key).unwrap_or("") }
    }

    /// The device for the whole process.
    pub fn engine_device(&self) -> Result<Option<DeviceOption>> {
        self.first_device(&[DEVICE])
    }

    /// The device of a session.
    pub fn session_device(&self) -> Result<Option<DeviceOption>> {
        self.first_device(&[SESSION_DEVICE, DEVICE])
    }

    fn first_device(&self, keys: &[&'static str]) -> Result<Option<DeviceOption>> {
        for key in keys {
            if let Some(device) = self.option(key).device()? {
                return Ok(Some(DeviceOption { key, device }));
            }
        }
        Ok(None)
    }

    /// Inputs that may lie on the host.
    pub fn host_inputs(&self, inputs: usize) -> Result<BTreeSet<usize>> {
        self.option(HOST_INPUTS).host_inputs(inputs)
    }

    /// Frozen inputs, whose address stays, with the address where the option has it.
    pub fn frozen_inputs(&self, inputs: usize) -> Result<BTreeMap<usize, Option<usize>>> {
        self.option(FROZEN_INPUTS).frozen_inputs(inputs)
    }

    /// Whether feature memory may change from run to run.
    pub fn is_refreshable(&self) -> bool {
        self.text(REFRESHABLE) == Some("1")
    }

    /// Whether fixed feature memory is separate from the rest.
    pub fn has_separate_fixed(&self) -> bool {
        self.is_refreshable() || matches!(self.text(STATIC_POLICY), Some("1" | "2" | "4"))
    }

    /// Pairs of an input and an output that are one memory.
    pub fn reuse(&self, inputs: usize, outputs: usize) -> Result<Vec<(usize, usize)>> {
        self.option(REUSE).reuse(inputs, outputs)
    }

    /// How a graph with this many inputs and outputs is compiled. `descs` replaces the descriptions of its inputs.
    pub fn compile_options(
        &self,
        inputs: usize,
        outputs: usize,
        descs: Vec<Desc>,
    ) -> Result<CompileOptions> {
        self.host_inputs(inputs)?;
        self.frozen_inputs(inputs)?;
        Ok(CompileOptions {
            inputs: descs,
            folds: self.folds(),
            fuses: self.fuses(),
            is_refreshable: self.is_refreshable(),
            has_separate_fixed: self.has_separate_fixed(),
            reuse: self.reuse(inputs, outputs)?,
            ..CompileOptions::default()
        })
    }

    /// Whether nodes are run together where that saves memory traffic.
    pub fn fuses(&self) -> bool {
        !matches!(self.text(LEVEL), Some("O0" | "O1"))
    }

    /// Whether nodes that depend on constants alone are computed beforehand.
    pub fn folds(&self) -> bool {
        !matches!(self.text(FOLDING), Some("false" | "0"))
    }
}

/// One option as it was set.
pub(super) struct Setting<'a> {
    key: &'a str,
    pub(super) value: &'a str,
}

impl fmt::Display for Setting<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.key, self.value)
    }
}

/// More inputs and outputs than any graph has: values are read before the graph is known.
const ANY_COUNT: usize = usize::MAX;

pub(super) fn check_device(setting: &Setting<'_>) -> Result<()> {
    setting.device().map(drop)
}

pub(super) fn check_host_inputs(setting: &Setting<'_>) -> Result<()> {
    setting.host_inputs(ANY_COUNT).map(drop)
}

pub(super) fn check_frozen_inputs(setting: &Setting<'_>) -> Result<()> {
    setting.frozen_inputs(ANY_COUNT).map(drop)
}

pub(super) fn check_reuse(setting: &Setting<'_>) -> Result<()> {
    setting.reuse(ANY_COUNT, ANY_COUNT).map(drop)
}

impl<'a> Setting<'a> {
    /// A failure that shows the option.
    pub(super) fn wrong<T>(&self, text: String) -> Result<T> {
        Err(Failure::invalid(format!("{self}: {text}")))
    }

    /// The number of a device; -1 is none.
    fn device(&self) -> Result<Option<u32>> {
        match self.value {
            "" | "-1" => Ok(None),
            text => self.number(text).map(Some),
        }
    }

    fn host_inputs(&self, inputs: usize) -> Result<BTreeSet<usize>> {
        self.parts(';').map(|text| self.index(text, "input", inputs)).collect()
    }

    fn frozen_inputs(&self, inputs: usize) -> Result<BTreeMap<usize, Option<usize>>> {
        let mut found = BTreeMap::new();
        for text in self.parts(';') {
            let parts: Vec<&str> = text.split(',').map(str::trim).collect();
            let (at, address) = match parts[..] {
                [at] => (at, None),
                [at, address, length] => {
                    self.number::<usize>(length)?;
                    (at, Some(self.number(address)?))
                }
                _ => {
                    return self.wrong(format!(
                        "'{text}' is not INDEX or INDEX,ADDRESS,LENGTH (several are separated by ';')"
                    ));
                }
            };
            found.insert(self.index(at, "input", inputs)?, address);
        }
        Ok(found)
    }

    fn reuse(&self, inputs: usize, outputs: usize) -> Result<Vec<(usize, usize)>> {
        let mut found = Vec::new();
        for text in self.parts('|') {
            let Some((input, output)) = text.split_once(',') else {
                return self
                    .wrong(format!("'{text}' is not INPUT,OUTPUT (several are separated by '|')"));
            };
            let input = self.index(input, "input", inputs)?;
            found.push((input, self.index(output, "output", outputs)?));
        }
        Ok(found)
    }

    fn parts(&self, separator: char) -> impl Iterator<Item = &'a str> + use<'a> {
        self.value.split(separator).filter(|text| !text.is_empty())
    }

    fn number<T: std::str::FromStr>(&self, text: &str) -> Result<T> {
        let text = text.trim();
        text.parse().or_else(|_| self.wrong(format!("'{text}' is not a valid number")))
    }

    fn index(&self, text: &str, what: &str, count: usize) -> Result<usize> {
        let at: usize = self.number(text)?;
        match at < count {
            true => Ok(at),
            false => self
                .wrong(format!("there is no {what} {at}; the graph has {count}, counted from 0")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(key: &str, value: &str) -> Options {
        Options::new([(key.into(), value.into())]).unwrap()
    }

    fn refused(key: &str, value: &str) -> String {
        Options::new([(key.into(), value.into())]).unwrap_err().text
    }

    #[test]
    fn indexes_are_read_and_checked() {
        assert_eq!(one(HOST_INPUTS, "0;2").host_inputs(3).unwrap(), BTreeSet::from([0, 2]));
        assert_eq!(
            one(HOST_INPUTS, "0;3").host_inputs(3).unwrap_err().text,
            "ge.exec.hostInputIndexes=0;3: there is no input 3; the graph has 3, counted from 0"
        );
        let frozen = one(FROZEN_INPUTS, "0;1,4096,16").frozen_inputs(2).unwrap();
        assert_eq!(frozen, BTreeMap::from([(0, None), (1, Some(4096))]));
        assert_eq!(one(REUSE, "0,1|1,0").reuse(2, 2).unwrap(), [(0, 1), (1, 0)]);
        assert!(one(REUSE, "0,2").reuse(2, 2).is_err());
    }

    #[test]
    fn bad_values_of_known_options_are_refused_and_named() {
        assert_eq!(
            refused(HOST_INPUTS, "x"),
            "ge.exec.hostInputIndexes=x: 'x' is not a valid number"
        );
        assert_eq!(refused(REFRESHABLE, "7"), "ge.featureBaseRefreshable=7: expected one of 0, 1");
        assert_eq!(refused(LEVEL, "O9"), "ge.oo.level=O9: expected one of O0, O1, O2, O3");
        for (key, value) in [
            (FROZEN_INPUTS, "zz"),
            (FROZEN_INPUTS, "1,2"),
            (FROZEN_INPUTS, "0,4096,zz"),
            (FOLDING, "maybe"),
            (STATIC_POLICY, "5"),
            (REUSE, "0"),
            (DEVICE, "-2"),
            (SESSION_DEVICE, "first"),
            ("ge.graphRunMode", "2"),
        ] {
            assert!(refused(key, value).starts_with(&format!("{key}={value}: ")), "{key}={value}");
        }
    }

    #[test]
    fn options_without_effect_are_named() {
        let warning = |key: &str, value: &str, level| one(key, value).without_effect(level);
        assert_eq!(
            warning("ge.deterministic", "1", Level::Engine).unwrap(),
            "options taken without effect: ge.deterministic=1"
        );
        assert_eq!(
            warning("ge.exec.newest", "on", Level::Graph).unwrap(),
            "unknown options, taken without effect: ge.exec.newest=on"
        );
        assert_eq!(warning("ge.deterministic", "", Level::Engine), None);
        assert_eq!(warning(REFRESHABLE, "1", Level::Graph), None);
        assert!(warning(REFRESHABLE, "1", Level::Load).is_some());
        assert!(warning(DEVICE, "0", Level::Graph).is_some());
        assert_eq!(warning(HOST_INPUTS, "0", Level::Load), None);
        assert_eq!(warning("ge.constLifecycle", "graph", Level::Graph), None);
        assert!(warning("ge.constLifecycle", "session", Level::Graph).is_some());
        assert_eq!(warning("frozen_parameter", "1", Level::Graph), None);
    }

    #[test]
    fn the_session_s_own_device_comes_first() {
        let both = one(SESSION_DEVICE, "1").with_defaults(&one(DEVICE, "0"));
        let device = |key, device| Some(DeviceOption { key, device });
        assert_eq!(both.session_device().unwrap(), device(SESSION_DEVICE, 1));
        assert_eq!(both.engine_device().unwrap(), device(DEVICE, 0));
        assert_eq!(one(DEVICE, "-1").session_device().unwrap(), None);
    }

    #[test]
    fn specific_options_win_and_keys_are_not_empty() {
        let specific = one("a", "1").with_defaults(&one("a", "0"));
        assert_eq!(specific, one("a", "1"));
        assert!(Options::new([(String::new(), "v".into())]).is_err());
    }
}
