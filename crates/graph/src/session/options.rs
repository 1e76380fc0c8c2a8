//! Options: of the engine, a session, a graph or a load, the nearer before the farther.

use crate::executable::CompileOptions;
use crate::failure::{Failure, Result};
use crate::ir::Desc;
use std::collections::{BTreeMap, BTreeSet};

/// Options by key. Unknown keys are kept and mean nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options(pub BTreeMap<String, String>);

/// The device of a session.
const DEVICE: [&str; 2] = ["ge.session_device_id", "ge.exec.deviceId"];
const HOST_INPUTS: &str = "ge.exec.hostInputIndexes";
const FROZEN_INPUTS: &str = "ge.exec.frozenInputIndexes";
const REFRESHABLE: &str = "ge.featureBaseRefreshable";
const REUSE: &str = "ge.exec.outputReuseInputMemIndexes";
const STATIC_POLICY: &str = "ge.exec.staticMemoryPolicy";
const LEVEL: &str = "ge.oo.level";
const FOLDING: &str = "ge.oo.constantFolding";

impl Options {
    /// From keys and values; an empty key is an error.
    pub fn new(pairs: impl IntoIterator<Item = (String, String)>) -> Result<Options> {
        let options: BTreeMap<String, String> = pairs.into_iter().collect();
        match options.get("") {
            None => Ok(Options(options)),
            Some(value) => Err(Failure::invalid(format!(
                "E10059: an option with the value '{value}' has no key"
            ))),
        }
    }

    /// These, and those of `farther` that are not among them.
    pub fn over(&self, farther: &Options) -> Options {
        let mut all = farther.clone();
        all.0.extend(self.0.clone());
        all
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(|text| text.trim()).filter(|text| !text.is_empty())
    }

    fn option<'a>(&'a self, key: &'a str) -> Given<'a> {
        Given { key, value: self.text(key).unwrap_or("") }
    }

    /// The device that is asked for.
    pub fn device(&self) -> Result<Option<u32>> {
        for key in DEVICE {
            match self.text(key) {
                None | Some("-1") => {}
                Some(text) => return self.option(key).number(text).map(Some),
            }
        }
        Ok(None)
    }

    /// Inputs that may lie on the host.
    pub fn host_inputs(&self, inputs: usize) -> Result<BTreeSet<usize>> {
        let option = self.option(HOST_INPUTS);
        option.parts(';').map(|text| option.place(text, "input", inputs)).collect()
    }

    /// Inputs that stay where they are, with the address where it is given.
    pub fn frozen_inputs(&self, inputs: usize) -> Result<BTreeMap<usize, Option<usize>>> {
        let option = self.option(FROZEN_INPUTS);
        let mut found = BTreeMap::new();
        for text in option.parts(';') {
            let parts: Vec<&str> = text.split(',').map(str::trim).collect();
            let (at, address) = match parts[..] {
                [at] => (at, None),
                [at, address, _length] => (at, Some(option.number(address)?)),
                _ => {
                    return option.wrong(format!(
                        "'{text}' is neither a place nor place,address,length; semicolons are between them"
                    ));
                }
            };
            found.insert(option.place(at, "input", inputs)?, address);
        }
        Ok(found)
    }

    /// Whether feature memory may change from run to run.
    pub fn is_refreshable(&self) -> bool {
        self.text(REFRESHABLE) == Some("1")
    }

    /// Whether fixed feature memory is apart from the rest.
    pub fn keeps_fixed_apart(&self) -> bool {
        self.is_refreshable() || matches!(self.text(STATIC_POLICY), Some("1" | "2" | "4"))
    }

    /// Pairs of an input and an output that are one memory.
    pub fn reuse(&self, inputs: usize, outputs: usize) -> Result<Vec<(usize, usize)>> {
        let option = self.option(REUSE);
        let mut found = Vec::new();
        for text in option.parts('|') {
            let Some((input, output)) = text.split_once(',') else {
                return option
                    .wrong(format!("'{text}' is not input,output; bars are between them"));
            };
            let input = option.place(input, "input", inputs)?;
            found.push((input, option.place(output, "output", outputs)?));
        }
        Ok(found)
    }

    /// How a graph with so many inputs and outputs is compiled. `descs` replaces the descriptions of its inputs.
    pub fn compile_options(
        &self,
        inputs: usize,
        outputs: usize,
        descs: Vec<Desc>,
    ) -> Result<CompileOptions> {
        self.host_inputs(inputs)?;
        Ok(CompileOptions {
            inputs: descs,
            folds: self.folds(),
            fuses: self.fuses(),
            is_refreshable: self.is_refreshable(),
            keeps_fixed_apart: self.keeps_fixed_apart(),
            reuse: self.reuse(inputs, outputs)?,
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

/// One option as it was given; its failures show it.
struct Given<'a> {
    key: &'a str,
    value: &'a str,
}

impl<'a> Given<'a> {
    fn wrong<T>(&self, text: String) -> Result<T> {
        Err(Failure::invalid(format!("{}={}: {text}", self.key, self.value)))
    }

    fn parts(&self, between: char) -> impl Iterator<Item = &'a str> + use<'a> {
        self.value.split(between).filter(|text| !text.is_empty())
    }

    fn number<T: std::str::FromStr>(&self, text: &str) -> Result<T> {
        let text = text.trim();
        text.parse().or_else(|_| self.wrong(format!("'{text}' is no number that it takes")))
    }

    fn place(&self, text: &str, what: &str, count: usize) -> Result<usize> {
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

    #[test]
    fn indexes_are_read_and_checked() {
        assert_eq!(one(HOST_INPUTS, "0;2").host_inputs(3).unwrap(), BTreeSet::from([0, 2]));
        let told = |value: &str| one(HOST_INPUTS, value).host_inputs(3).unwrap_err().text;
        assert_eq!(
            told("0;3"),
            "ge.exec.hostInputIndexes=0;3: there is no input 3; the graph has 3, counted from 0"
        );
        assert_eq!(told("x"), "ge.exec.hostInputIndexes=x: 'x' is no number that it takes");
        let frozen = one(FROZEN_INPUTS, "0;1,4096,16").frozen_inputs(2).unwrap();
        assert_eq!(frozen, BTreeMap::from([(0, None), (1, Some(4096))]));
        assert!(one(FROZEN_INPUTS, "1,2").frozen_inputs(2).is_err());
        assert_eq!(one(REUSE, "0,1|1,0").reuse(2, 2).unwrap(), [(0, 1), (1, 0)]);
        assert!(one(REUSE, "0,2").reuse(2, 2).is_err());
    }

    #[test]
    fn nearer_options_win_and_keys_are_not_empty() {
        let near = one("a", "1").over(&one("a", "0"));
        assert_eq!(near, one("a", "1"));
        assert!(Options::new([(String::new(), "v".into())]).is_err());
    }
}
