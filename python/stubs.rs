//! Writes the type stubs of the module from its table.

use super::table::Function;
use std::fmt::Write;

/// The files of the stub package, by name: `__init__.pyi` and one for each module inside `acl`.
pub fn files(functions: &[Function]) -> Vec<(String, String)> {
    let mut modules: Vec<&str> = Vec::new();
    for function in functions {
        if !modules.contains(&function.module.as_str()) {
            modules.push(&function.module);
        }
    }
    let inner: Vec<_> = modules.iter().filter(|module| **module != "acl").copied().collect();
    modules
        .iter()
        .map(|module| {
            let rows = functions.iter().filter(|function| function.module == **module);
            let body: String = rows.map(stub).collect();
            let mut head = String::from(
                "from typing import Any, Callable, Optional, Sequence, Tuple, Union\n\n",
            );
            if *module == "acl" {
                let names: Vec<_> = inner.iter().map(|name| format!("{name} as {name}")).collect();
                writeln!(head, "from . import {}\n", names.join(", "))
                    .expect("writing to a String cannot fail");
            }
            let file = if *module == "acl" { "__init__" } else { module };
            (format!("{file}.pyi"), head + &body)
        })
        .collect()
}

fn stub(function: &Function) -> String {
    let inputs = function.parameters.iter().filter(|parameter| !parameter.is_output);
    let parameters: Vec<_> = inputs
        .map(|parameter| match parameter.kind.ends_with('?') {
            true => format!("{}: {} = None", parameter.name, python_type(&parameter.kind)),
            false => format!("{}: {}", parameter.name, python_type(&parameter.kind)),
        })
        .collect();
    let results: Vec<_> =
        (0..function.results.len()).map(|index| result_type(function.result_kind(index))).collect();
    let result = match results.as_slice() {
        [one] => one.clone(),
        several => format!("Tuple[{}]", several.join(", ")),
    };
    format!("def {}({}) -> {result}: ...\n", function.name, parameters.join(", "))
}

fn python_type(kind: &str) -> String {
    if let Some(inner) = kind.strip_suffix('?') {
        return format!("Optional[{}]", python_type(inner));
    }
    let name = match kind {
        "f32" => "float",
        "str" => "str",
        "bytes" => "bytes",
        "none" => "None",
        "dict" | "dims" | "ranges" | "batches" | "image_sizes" => "dict[str, Any]",
        "option" => "Union[int, str]",
        "list" => "list[Any]",
        "array" => "Any",
        "callable" => "Callable[..., Any]",
        "function" => "Union[Callable[..., Any], int]",
        "strs" => "Sequence[str]",
        "f32s" => "Sequence[float]",
        "pairs" | "lists" => "Sequence[Sequence[int]]",
        "ptrs" | "i64s" | "i32s" | "u8s" => "Sequence[int]",
        _ => "int",
    };
    name.into()
}

fn result_type(kind: &str) -> String {
    match kind {
        "str" => "Optional[str]".into(),
        other => python_type(other),
    }
}
