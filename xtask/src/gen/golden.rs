//! The headers as tables, for the test that compares them with what is known of CANN.

use std::{collections::BTreeMap, fmt::Write as _, path::Path};

use anyhow::{Result, bail};

use quote::ToTokens as _;
use syn::{Expr, Item};

/// `name,value` of every constant.
pub fn values(items: &[Item]) -> String {
    let mut text = String::from("name,value\n");
    for item in items {
        let Item::Const(constant) = item else {
            continue;
        };
        if let Some(value) = integer(&constant.expr) {
            writeln!(text, "{},{value}", constant.ident).expect("a string takes any text");
        }
    }
    text
}

/// `struct,size` of every struct and union whose fields are public, as bindgen asserts it.
pub fn sizes(items: &[Item]) -> String {
    const START: &str = "[\"Size of ";
    let mut text = String::from("struct,size\n");
    for item in items {
        let Item::Const(check) = item else { continue };
        let source = check.expr.to_token_stream().to_string();
        let Some(at) = source.find(START) else {
            continue;
        };
        let rest = &source[at + START.len()..];
        let name = rest.split('"').next().unwrap_or_default();
        if name.contains("__bindgen") {
            // A union without a name: C cannot ask for its size.
            continue;
        }
        let size = rest.split("usize").next().and_then(|text| text.rsplit(' ').next());
        writeln!(text, "{name},{}", size.unwrap_or_default()).expect("a string takes any text");
    }
    text
}

/// The table at `name` with the rows that it lacks. A row that is there was checked against CANN once
/// and is not changed: a header that differs from it is an error.
pub fn extend(root: &Path, name: &str, fresh: &str) -> Result<String> {
    let old = std::fs::read_to_string(root.join(name)).unwrap_or_default();
    let rows = |text: &str| -> BTreeMap<String, String> {
        let pairs = text.lines().skip(1).filter_map(|line| line.split_once(','));
        pairs.map(|(key, value)| (key.to_string(), value.to_string())).collect()
    };
    let known = rows(&old);
    for (key, value) in &rows(fresh) {
        if let Some(old_value) = known.get(key)
            && old_value != value
        {
            bail!(
                "{key} is {value} in the headers and {old_value} in {name}: one of them is wrong"
            );
        }
    }
    let declared = rows(fresh);
    for line in old.lines().skip(1) {
        let key = line.split(',').next().unwrap_or_default();
        if !declared.contains_key(key) {
            bail!("{key} stands in {name} and no longer in the headers");
        }
    }
    Ok(fresh.to_string())
}

fn integer(expression: &Expr) -> Option<i128> {
    match expression {
        Expr::Lit(literal) => match &literal.lit {
            syn::Lit::Int(value) => value.base10_parse().ok(),
            _ => None,
        },
        Expr::Unary(negation) => integer(&negation.expr).map(|value| -value),
        _ => None,
    }
}
