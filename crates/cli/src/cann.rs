//! What belongs to CANN, by name: symbols and libraries.

/// Functions of securec, which CANN's libraries bring along.
const SECUREC: [&str; 15] = [
    "memcpy_s",
    "memmove_s",
    "memset_s",
    "scanf_s",
    "snprintf_s",
    "sprintf_s",
    "sscanf_s",
    "strcat_s",
    "strcpy_s",
    "strncat_s",
    "strncpy_s",
    "strtok_s",
    "vsnprintf_s",
    "vsprintf_s",
    "vsscanf_s",
];

/// Prefixes of C functions; a capital must follow where the prefix alone is too common.
const PREFIXES: [&str; 9] =
    ["Hccl", "Hcom", "Msprof", "AdxDataDump", "Dlog", "dlog_", "dcmi_", "atc_", "ge_"];
const PREFIXES_BEFORE_CAPITAL: [&str; 4] = ["rt", "hal", "drv", "prof"];

/// Beginnings of the names of CANN's libraries.
const LIBRARIES: [&str; 26] = [
    "libacl_",
    "libascend",
    "libatb.",
    "libc_sec.",
    "libcce",
    "liberror_manager",
    "libexe_graph",
    "libfmk_",
    "libge_",
    "libgraph.",
    "libgraph_",
    "libhccl",
    "libhcomm",
    "liblowering",
    "libmetadef",
    "libmsprof",
    "libnnopbase",
    "libop_",
    "libopapi",
    "libopp_",
    "libplatform.",
    "libprofapi",
    "libregister.",
    "libruntime.",
    "libtiling",
    "libunified_dlog",
];

/// Whether the symbol looks like one that a library of CANN defines.
pub fn is_symbol(name: &str) -> bool {
    let capital_after = |prefix: &&str| {
        name.strip_prefix(*prefix)
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
    };
    (name.starts_with("acl") && !name.starts_with("acl_") && name.len() > 3)
        || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || PREFIXES_BEFORE_CAPITAL.iter().any(capital_after)
        || SECUREC.contains(&name)
        || nested(name).is_some_and(|rest| rest.starts_with("2ge") || rest.starts_with("4gert"))
}

/// Whether the file name is one of CANN's libraries.
pub fn is_library(name: &str) -> bool {
    LIBRARIES.iter().any(|prefix| name.starts_with(prefix))
}

/// What follows the `N` and the qualifiers of a mangled nested name, also of its type information.
fn nested(name: &str) -> Option<&str> {
    let name = name.strip_prefix("_Z")?;
    let name =
        ["TI", "TV", "TS", "TT"].iter().find_map(|kind| name.strip_prefix(kind)).unwrap_or(name);
    Some(name.strip_prefix('N')?.trim_start_matches(['r', 'V', 'K']).trim_start_matches(['R', 'O']))
}

/// The name as a person writes it, without arguments: `ge::Session::AddGraph`. A name that needs
/// more than that (templates, most operators) stays as it is.
pub fn readable(name: &str) -> String {
    readable_parts(name).map_or_else(|| name.to_string(), |parts| parts.join("::"))
}

/// The parts of a qualified name: `ge`, `Session`, `AddGraph`.
fn readable_parts(name: &str) -> Option<Vec<String>> {
    let mut rest = nested(name)?;
    let mut parts = Vec::<String>::new();
    while !rest.starts_with('E') {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        if digits > 0 {
            let length: usize = rest[..digits].parse().ok()?;
            parts.push(rest.get(digits..digits + length)?.into());
            rest = &rest[digits + length..];
            continue;
        }
        let class = parts.last()?.clone();
        parts.push(match rest.get(..2)? {
            "C1" | "C2" | "C3" => class,
            "D0" | "D1" | "D2" => format!("~{class}"),
            "lt" => "operator<".into(),
            "eq" => "operator==".into(),
            "aS" => "operator=".into(),
            _ => return None,
        });
        rest = &rest[2..];
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_of_cann() {
        for name in [
            "aclInit",
            "aclnnAddGetWorkspaceSize",
            "HcclSend",
            "rtKernelLaunch",
            "MsprofReportApi",
            "snprintf_s",
            "_ZN2ge7Session8AddGraphEj",
            "_ZNK2ge5Shape7GetDimsEv",
            "_ZTIN2ge9AllocatorE",
            "_ZN4gert6TensorC1Ev",
        ] {
            assert!(is_symbol(name), "{name}");
        }
        for name in [
            "acl_get_file",
            "acl",
            "rtld_global",
            "malloc",
            "_ZN3c107Error4whatEv",
            "_ZN6acl_op3addEv",
            "halt",
        ] {
            assert!(!is_symbol(name), "{name}");
        }
    }

    #[test]
    fn libraries_of_cann() {
        assert!(
            is_library("libascendcl.so") && is_library("libgraph.so") && is_library("libhccl.so")
        );
        assert!(
            !is_library("libtorch.so.2")
                && !is_library("libc.so.6")
                && !is_library("libgraphite2.so")
        );
    }

    #[test]
    fn names_for_people() {
        for (mangled, name) in [
            ("_ZN2ge7Session8AddGraphEjRKNS_5GraphE", "ge::Session::AddGraph"),
            ("_ZN2ge7SessionC1ERKSt3mapIiiE", "ge::Session::Session"),
            ("_ZN2ge7SessionD2Ev", "ge::Session::~Session"),
            ("_ZNK2ge12AscendStringltERKS0_", "ge::AscendString::operator<"),
            ("_ZTIN2ge9AllocatorE", "ge::Allocator"),
            ("_ZN2ge3FooIiE3barEv", "_ZN2ge3FooIiE3barEv"),
            ("_ZN99x", "_ZN99x"),
            ("aclInit", "aclInit"),
        ] {
            assert_eq!(readable(mangled), name);
        }
    }
}
