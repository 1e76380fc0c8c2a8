//! Two copies of the library in one process would each have their own devices and streams. The
//! loader tells libraries apart by inode, so links are fine and copies are not: this finds and reports them.

use std::collections::BTreeMap;

/// Names under which CANN's core, ours or the real one, is loaded.
const NAMES: [&str; 5] =
    ["libascendcl.so", "libacl_rt.so", "libopapi.so", "libnnopbase.so", "libhccl.so"];

/// Warns on standard error and in the log if another core is mapped beside this one.
pub fn warn() {
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else { return };
    if let Some((ours, others)) = find(&maps, warn as *const () as usize) {
        let text = format!(
            "two copies of ACL are loaded, each with devices and streams of its own: {ours} and {}. \
             Make the second one a link to the first, or mend LD_LIBRARY_PATH (`cairn doctor` helps)",
            others.join(", ")
        );
        log::error!("{text}");
        eprintln!("cairn: {text}");
    }
}

/// The file that holds `address`, and other files that look like a core.
fn find(maps: &str, address: usize) -> Option<(String, Vec<String>)> {
    let mut files = BTreeMap::new();
    let mut ours = None;
    for line in maps.lines() {
        let mut fields = line.split_ascii_whitespace();
        let (Some(range), Some(device), Some(inode)) =
            (fields.next(), fields.nth(2), fields.next())
        else {
            continue;
        };
        let Some(path) = line.find('/').map(|at| &line[at..]) else { continue };
        let file = (device, inode);
        let (start, end) = range.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).unwrap_or(0);
        if (number(start)..number(end)).contains(&address) {
            ours = Some(file);
        }
        let name = path.rsplit('/').next().unwrap_or(path);
        if ours == Some(file) || NAMES.contains(&name) {
            files.insert(file, path.to_string());
        }
    }
    let ours = ours?;
    let our_path = files.remove(&ours)?;
    let others: Vec<String> = files.into_values().collect();
    (!others.is_empty()).then_some((our_path, others))
}
