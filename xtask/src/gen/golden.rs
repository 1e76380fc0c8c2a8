//! The headers as tables, for the test that compares them with what is known of CANN.

use std::fmt::Write as _;

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
        let size = rest.split("usize").next().and_then(|head| head.rsplit(' ').next());
        writeln!(text, "{name},{}", size.unwrap_or_default()).expect("a string takes any text");
    }
    text
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
