//! Writes the Rust of the wrappers that are not handwritten.

use super::table::{Function, Parameter};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

/// The table of C functions, a wrapper for each row, and a function `add_MODULE` for each module.
pub fn source(functions: &[Function]) -> String {
    let mut out = c_functions(functions);
    let mut modules: BTreeMap<&str, String> = BTreeMap::new();
    for function in functions {
        let ident = format!("{}_{}", function.module, function.name);
        if !function.is_handwritten {
            wrapper(&mut out, function, &ident);
        }
        let additions = modules.entry(&function.module).or_default();
        writeln!(additions, "    module.add_function(wrap_pyfunction!({ident}, module)?)?;")
            .expect("writing to a String cannot fail");
    }
    for (module, additions) in modules {
        write!(
            out,
            "pub(crate) fn add_{module}(module: &Bound<'_, PyModule>) -> PyResult<()> {{\n{additions}    Ok(())\n}}\n\n"
        )
        .expect("writing to a String cannot fail");
    }
    out
}

/// The struct of the C functions, and how it is loaded.
fn c_functions(functions: &[Function]) -> String {
    let mut fields = String::new();
    let mut loads = String::new();
    let mut listed = BTreeSet::new();
    for function in functions {
        let Some(c_function) =
            function.c_function.as_ref().filter(|c_function| listed.insert(*c_function))
        else {
            continue;
        };
        let kind = if function.is_handwritten { "usize".into() } else { signature(function) };
        writeln!(fields, "    pub {c_function}: {kind},").expect("writing to a String cannot fail");
        let load = format!("library.find(c\"{c_function}\")?");
        match function.is_handwritten {
            true => writeln!(loads, "            {c_function}: {load},").expect("writing to a String cannot fail"),
            false => write!(
                loads,
                "            // SAFETY: the library exports this name with this signature.\n            \
                 {c_function}: unsafe {{ std::mem::transmute::<usize, {kind}>({load}) }},\n"
            )
            .expect("writing to a String cannot fail"),
        }
    }
    format!(
        "pub(crate) struct CFunctions {{\n{fields}}}\n\nimpl CFunctions {{\n    \
         pub fn load(library: &Library) -> PyResult<CFunctions> {{\n        Ok(CFunctions {{\n{loads}        }})\n    }}\n}}\n\n"
    )
}

fn signature(function: &Function) -> String {
    let parameters: Vec<_> = function.parameters.iter().flat_map(c_types).collect();
    let (returns, _) = result(function);
    format!("unsafe extern \"C\" fn({}){returns}", parameters.join(", "))
}

/// The parameters of C that a parameter of Python stands for.
fn c_types(parameter: &Parameter) -> Vec<String> {
    if parameter.is_output {
        return vec![format!("*mut {}", rust_type(&parameter.kind))];
    }
    let array = match parameter.kind.as_str() {
        "str" | "str?" => return vec!["*const c_char".into()],
        "pairs" => return vec!["usize".into(), "*const [i64; 2]".into()],
        "lists" => return vec!["i32".into(), "*const i32".into(), "*const *const i64".into()],
        "dims" => return vec!["*const Dims".into()],
        "strs" => "*const *const c_char".to_owned(),
        "ptrs" | "i64s" | "i32s" | "u8s" | "f32s" => {
            format!("*const {}", element_type(&parameter.kind))
        }
        _ => return vec![rust_type(&parameter.kind).into()],
    };
    match parameter.shares_count_of {
        Some(_) => vec![array],
        None => vec!["i32".into(), array],
    }
}

/// What C returns, as Rust writes it, and whether it is the error code or a value.
fn result(function: &Function) -> (String, ResultKind) {
    if function.results.iter().any(|(name, _)| name == "ret") {
        return (" -> i32".into(), ResultKind::Code);
    }
    match function.result_kind(0) {
        "none" => (String::new(), ResultKind::Nothing),
        "str" => (" -> *const c_char".into(), ResultKind::Text),
        kind => (format!(" -> {}", rust_type(kind)), ResultKind::Number),
    }
}

enum ResultKind {
    Code,
    Nothing,
    Text,
    Number,
}

/// Writes the wrapper of a function.
fn wrapper(out: &mut String, function: &Function, ident: &str) {
    let c_function = function.c_function.as_deref().expect("a wrapper calls something");
    let inputs: Vec<_> =
        function.parameters.iter().filter(|parameter| !parameter.is_output).collect();
    let mut arguments = vec!["py: Python<'_>".to_owned()];
    arguments.extend(inputs.iter().map(|p| format!("{}: {}", name(p), extracted_type(&p.kind))));
    let optional = inputs.iter().any(|parameter| parameter.kind.ends_with('?'));
    let mut body = String::new();
    for output in function.parameters.iter().filter(|parameter| parameter.is_output) {
        writeln!(body, "    let mut {} = {}::default();", name(output), rust_type(&output.kind))
            .expect("writing to a String cannot fail");
    }
    for list in &inputs {
        if let Some(other) = &list.shares_count_of {
            writeln!(body, "    {}.matches(\"{}\", &{other}, \"{other}\")?;", list.name, list.name)
                .expect("writing to a String cannot fail");
        }
    }
    let passed: Vec<_> = function.parameters.iter().flat_map(passed_arguments).collect();
    let call = format!("(c_functions().{c_function})({})", passed.join(", "));
    let safety_comment = "// SAFETY: the arguments have the types of C and outlive the call; the library checks handles.";
    let run_function =
        if function.calls_back { "without_gil_checking_fork" } else { "without_gil" };
    let (_, returned) = result(function);
    let call = match returned {
        ResultKind::Text => format!("text(unsafe {{ {call} }})"),
        _ => format!("unsafe {{ {call} }}"),
    };
    writeln!(
        body,
        "    let ret = {run_function}(py, || {{\n        {safety_comment}\n        {call}\n    }});"
    )
    .expect("writing to a String cannot fail");
    let (kinds, values): (Vec<_>, Vec<_>) = match returned {
        ResultKind::Nothing => (vec!["()".to_owned()], vec!["ret".to_owned()]),
        ResultKind::Text => (vec!["Option<String>".into()], vec!["ret".into()]),
        ResultKind::Number => (vec![rust_type(function.result_kind(0)).into()], vec!["ret".into()]),
        ResultKind::Code => function
            .results
            .iter()
            .enumerate()
            .map(|(index, (result, _))| {
                let parameter =
                    function.parameters.iter().find(|parameter| parameter.name == *result);
                match parameter {
                    None => ("i32".to_owned(), "ret".to_owned()),
                    Some(p) if p.is_output => {
                        (rust_type(function.result_kind(index)).into(), name(p))
                    }
                    Some(p) => {
                        (rust_type(function.result_kind(index)).into(), format!("{}.0", name(p)))
                    }
                }
            })
            .unzip(),
    };
    let (kind, value) = match kinds.len() {
        1 => (kinds[0].clone(), values[0].clone()),
        _ => (format!("({})", kinds.join(", ")), format!("({})", values.join(", "))),
    };
    let defaults = match optional {
        true => format!("#[pyo3(signature = ({}=None))]\n", inputs[0].name),
        false => String::new(),
    };
    write!(
        out,
        "/// Calls {c_function}.\n#[pyfunction(name = \"{}\")]\n{defaults}fn {ident}({}) -> PyResult<{kind}> {{\n{body}    Ok({value})\n}}\n\n",
        function.name,
        arguments.join(", "),
    )
    .expect("writing to a String cannot fail");
}

/// The name of a parameter in Rust.
fn name(parameter: &Parameter) -> String {
    match parameter.name.as_str() {
        "type" => "r#type".into(),
        name => name.into(),
    }
}

/// What the wrapper passes to C for a parameter.
fn passed_arguments(parameter: &Parameter) -> Vec<String> {
    let name = name(parameter);
    if parameter.is_output {
        return vec![format!("&mut {name}")];
    }
    match parameter.kind.as_str() {
        "str" => vec![format!("{name}.0.as_ptr()")],
        "str?" => vec![format!("{name}.as_ref().map_or(std::ptr::null(), |text| text.0.as_ptr())")],
        "dims" => vec![format!("&{name}")],
        "pairs" => vec![format!("{name}.0.len()"), format!("{name}.0.as_ptr()")],
        "lists" => vec![
            format!("{name}.count()"),
            format!("{name}.counts.as_ptr()"),
            format!("{name}.pointers.as_ptr()"),
        ],
        "strs" => vec![format!("{name}.count()"), format!("{name}.pointers.as_ptr()")],
        "ptrs" | "i64s" | "i32s" | "u8s" | "f32s" if parameter.shares_count_of.is_some() => {
            vec![format!("{name}.0.as_ptr()")]
        }
        "ptrs" | "i64s" | "i32s" | "u8s" | "f32s" => {
            vec![format!("{name}.count()"), format!("{name}.0.as_ptr()")]
        }
        _ => vec![format!("{name}.0")],
    }
}

/// The Rust type that pyo3 extracts.
fn extracted_type(kind: &str) -> String {
    match kind {
        "str" => "Text".into(),
        "str?" => "Option<Text>".into(),
        "f32" => "Real".into(),
        "dims" => "Dims".into(),
        "index" => "Index".into(),
        "pairs" => "Pairs".into(),
        "lists" => "Lists".into(),
        "strs" => "Texts".into(),
        "ptrs" | "i64s" | "i32s" | "u8s" => format!("Numbers<{}>", element_type(kind)),
        "f32s" => "Reals".into(),
        _ => format!("Number<{}>", rust_type(kind)),
    }
}

fn element_type(kind: &str) -> &str {
    match kind {
        "ptrs" => "usize",
        other => other.strip_suffix('s').expect("the kind of a list ends in s"),
    }
}

fn rust_type(kind: &str) -> &str {
    match kind {
        "ptr" | "index" => "usize",
        "dims" => "Dims",
        "ranges" => "DimRanges",
        "batches" => "Batches",
        "image_sizes" => "ImageSizes",
        other => other,
    }
}
