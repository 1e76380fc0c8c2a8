//! Reads `functions.txt`, whose head describes its form.

/// One function of the module, and what it calls.
pub struct Function {
    /// `acl`, `rt`, `op`, `mdl` or `util`.
    pub module: String,
    /// Its name in that module.
    pub name: String,
    /// The C function; none for functions that Python alone has.
    pub c_function: Option<String>,
    /// Whether callables of the user may be called meanwhile.
    pub calls_back: bool,
    /// Whether it is written by hand; then `parameters` and `results` are those of Python alone.
    pub is_handwritten: bool,
    /// In the order of C.
    pub parameters: Vec<Parameter>,
    /// In the order of Python: a name and, where it has one of its own, a type.
    pub results: Vec<(String, Option<String>)>,
}

/// A parameter of the C function.
pub struct Parameter {
    /// The name, the same in Python.
    pub name: String,
    /// The type, a word of the table.
    pub kind: String,
    /// Whether C writes it.
    pub is_output: bool,
    /// The list whose count it shares.
    pub shares_count_of: Option<String>,
}

impl Function {
    /// The type of the result at `index`: its own, or that of the parameter it names.
    pub fn result_kind(&self, index: usize) -> &str {
        let (name, kind) = &self.results[index];
        let parameter = self.parameters.iter().find(|parameter| parameter.name == *name);
        match (kind, parameter) {
            (Some(kind), _) => kind,
            (None, Some(parameter)) => &parameter.kind,
            (None, None) => name,
        }
    }
}

/// Every row of the table; panics on a row that cannot be parsed.
pub fn parse(text: &str) -> Vec<Function> {
    let rows = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    rows.map(|row| {
        parse_function(row).unwrap_or_else(|| panic!("functions.txt: cannot read {row:?}"))
    })
    .collect()
}

fn parse_function(row: &str) -> Option<Function> {
    let (head, tail) = row.split_once(" : ")?;
    let (name, call) = head.split_once(" = ")?;
    let (module, name) = name.split_once('.')?;
    let mut words = call.split(' ');
    let c_function = words.next()?;
    let flags: Vec<_> = words.collect();
    let (parameters, results) = tail.split_once("->")?;
    Some(Function {
        module: module.into(),
        name: name.into(),
        c_function: (c_function != "-").then(|| c_function.into()),
        calls_back: flags.contains(&"calls"),
        is_handwritten: flags.contains(&"hand"),
        parameters: parameters.split_whitespace().map(parse_parameter).collect::<Option<_>>()?,
        results: results
            .split_whitespace()
            .map(|word| match word.split_once(':') {
                Some((name, kind)) => (name.into(), Some(kind.into())),
                None => (word.into(), None),
            })
            .collect(),
    })
}

fn parse_parameter(word: &str) -> Option<Parameter> {
    let is_output = word.contains('>');
    let (name, kind) = word.split_once([':', '>'])?;
    let (kind, shares_count_of) = match kind.split_once('=') {
        Some((kind, list)) => (kind, Some(list.into())),
        None => (kind, None),
    };
    Some(Parameter { name: name.into(), kind: kind.into(), is_output, shares_count_of })
}
