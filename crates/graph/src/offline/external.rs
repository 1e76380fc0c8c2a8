//! Weights in files of their own: in the graph of the model file, a `FileConstant` stands for each large constant, and
//! names a file, and the bytes of it.

use super::pieces::Pieces;
use super::weights::{ALIGN, MIN_BYTES};
use crate::files::{OpenFiles, range_of};
use crate::ir::{Attr, Attrs, CONST, Constant, Desc, Graph, Node};
use bytes::Bytes;
use cairn_runtime::memory::mapped_file;
use cairn_tensor::DType;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

/// Where the large constants of a model are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum WeightPlacement {
    /// In the model file.
    #[default]
    Inside,
    /// In a file each, named by its content.
    Separate,
    /// In one file of this name.
    Combined(String),
}

/// A file of weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightFile {
    /// Its name, without a folder.
    pub name: String,
    /// What it holds.
    pub content: Pieces,
}

/// The folder of these files, in the folder of the model.
pub const WEIGHT_FOLDER: &str = "weight";

/// The type of a node whose value is in a file.
const FILE_CONSTANT: &str = "FileConstant";

const LOCATION: &str = "location";
const FILE_PATH: &str = "file_path";
const OFFSET: &str = "offset";
const LENGTH: &str = "length";
const SHAPE: &str = "shape";
const DTYPE: &str = "dtype";

/// Takes large constants out of a graph, into files.
pub fn take_out(graph: &mut Graph, placement: &WeightPlacement) -> Vec<WeightFile> {
    let mut files: Vec<WeightFile> = Vec::new();
    let mut combined = Pieces::default();
    let mut names: HashMap<String, Bytes> = HashMap::new();
    let mut place = |bytes: &Bytes| match placement {
        WeightPlacement::Inside => None,
        WeightPlacement::Combined(name) => {
            combined.align(ALIGN);
            let offset = combined.length();
            combined.push(bytes.clone());
            Some((name.clone(), offset))
        }
        WeightPlacement::Separate => {
            let base = format!("weight_{:016x}", hash(bytes));
            let endings = std::iter::once(String::new()).chain((1..).map(|n| format!("_{n}")));
            for name in endings.map(|ending| base.clone() + &ending) {
                match names.get(&name) {
                    Some(known) if known == bytes => return Some((name, 0)),
                    Some(_) => {}
                    None => {
                        names.insert(name.clone(), bytes.clone());
                        let content = Pieces::from(bytes.clone());
                        files.push(WeightFile { name: name.clone(), content });
                        return Some((name, 0));
                    }
                }
            }
            None
        }
    };
    graph.each_node(&mut |node| {
        let Some(Attr::Tensor(constant)) = node.attrs.get("value") else { return };
        if !CONST.contains(&node.kind.as_str()) || constant.bytes.len() < MIN_BYTES {
            return;
        }
        if let Some((name, offset)) = place(&constant.bytes) {
            let attrs = file_attrs(constant, name, offset);
            node.attrs.remove("value");
            node.attrs.extend(attrs);
            FILE_CONSTANT.clone_into(&mut node.kind);
        }
    });
    if let WeightPlacement::Combined(name) = placement {
        files.push(WeightFile { name: name.clone(), content: combined });
    }
    files
}

fn file_attrs(constant: &Constant, name: String, offset: usize) -> Attrs {
    Attrs::from([
        (LOCATION.to_owned(), Attr::Text(name.into_bytes())),
        (OFFSET.to_owned(), Attr::Int(offset as i64)),
        (LENGTH.to_owned(), Attr::Int(constant.bytes.len() as i64)),
        (SHAPE.to_owned(), Attr::Ints(constant.desc.dims.clone())),
        (DTYPE.to_owned(), Attr::Type(constant.desc.dtype as i64)),
    ])
}

/// FNV-1a, of 64 bits.
fn hash(bytes: &[u8]) -> u64 {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    mapped_file::release(bytes);
    hash
}

/// Whether constants of the graph are in files.
pub fn has_files(graph: &Graph) -> bool {
    let has = |graph: &Graph| graph.nodes().any(|(_, node)| node.kind == FILE_CONSTANT);
    has(graph) || graph.subgraphs().any(has)
}

/// The files of a model: those in memory by name, then those of a folder, or of the folder `weight` in it.
pub struct WeightFiles<'a> {
    /// The folder; `None` for a model in memory, of which none is known.
    folder: Option<&'a Path>,
    /// The bytes of files that are not looked up there.
    in_memory: &'a BTreeMap<String, Bytes>,
    /// Those that were opened.
    opened: OpenFiles,
}

/// Turns each `FileConstant` of a graph into a constant. The text of an error names node and file.
pub fn put_back(graph: &mut Graph, files: &WeightFiles<'_>) -> Result<(), String> {
    let mut result = Ok(());
    graph.each_node(&mut |node| {
        if result.is_ok() && node.kind == FILE_CONSTANT {
            result = files.restore(node).map_err(|reason| {
                format!("the weights of the node {} cannot be had: {reason}", node.name)
            });
        }
    });
    result
}

impl<'a> WeightFiles<'a> {
    /// Files of which none was opened yet.
    pub fn new(folder: Option<&'a Path>, in_memory: &'a BTreeMap<String, Bytes>) -> Self {
        WeightFiles { folder, in_memory, opened: OpenFiles::default() }
    }

    fn restore(&self, node: &mut Node) -> Result<(), String> {
        let text = |name: &str| match node.attrs.get(name) {
            Some(Attr::Text(text)) if !text.is_empty() => {
                Some(String::from_utf8_lossy(text).into_owned())
            }
            _ => None,
        };
        let location = text(LOCATION).or_else(|| text(FILE_PATH)).ok_or("it names no file")?;
        let name = Path::new(&location).file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| format!("'{location}' is no name of a file"))?;
        let number = |name: &str| match node.attrs.get(name).and_then(Attr::int) {
            None => Ok(None),
            Some(number) => match u64::try_from(number) {
                Ok(number) => Ok(Some(number)),
                Err(_) => Err(format!("its {name} is {number}")),
            },
        };
        let Some(Attr::Ints(shape)) = node.attrs.get(SHAPE) else {
            return Err("it has no shape".to_owned());
        };
        let dtype = node.attrs.get(DTYPE).and_then(Attr::int);
        let dtype = dtype.and_then(|number| DType::from_number(i32::try_from(number).ok()?));
        let dtype = dtype.ok_or("it has no type that is known")?;
        let mut desc = Desc::new(dtype, shape);
        let layout = desc.layout().ok_or_else(|| format!("{shape:?} are no sizes"))?;
        if let Some(own) = node.output_descs.first() {
            desc.format = own.format;
            desc.origin_format = own.origin_format;
        }
        let bytes = layout.bytes();
        if let Some(length) = number(LENGTH)?
            && length != bytes as u64
        {
            return Err(format!("its length is {length}, its sizes need {bytes} bytes"));
        }
        let bytes = self.read(name, number(OFFSET)?.unwrap_or(0), bytes)?;
        for name in [LOCATION, FILE_PATH, OFFSET, LENGTH, SHAPE, DTYPE] {
            node.attrs.remove(name);
        }
        node.attrs.insert("value".to_owned(), Attr::Tensor(Constant { desc, bytes }));
        CONST[0].clone_into(&mut node.kind);
        Ok(())
    }

    fn read(&self, name: &str, offset: u64, bytes: usize) -> Result<Bytes, String> {
        if let Some(file) = self.in_memory.get(name) {
            return range_of(file, &format!("'{name}'"), offset, bytes);
        }
        let Some(folder) = self.folder else {
            return Err(format!(
                "they are in the file '{name}', and the model is in memory: name the folder of the file (ACL_MDL_WEIGHT_PATH_PTR), or memory with its bytes (aclmdlSetExternalWeightAddress)"
            ));
        };
        let places: [PathBuf; 2] = [folder.join(WEIGHT_FOLDER).join(name), folder.join(name)];
        match places.iter().find(|path| path.is_file()) {
            Some(path) => self.opened.read(path, offset, bytes),
            None => Err(format!(
                "there is neither a file {} nor {}",
                places[0].display(),
                places[1].display()
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn constant(values: &[f32]) -> Attr {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let desc = Desc::new(DType::Float, &[values.len() as i64]);
        Attr::Tensor(Constant { desc, bytes: bytes.into() })
    }

    /// Two large constants that are equal, one that is not, and a small one.
    fn graph() -> Graph {
        let mut graph = Graph::new("net");
        let large = vec![1.0; 400];
        let other = vec![2.0; 300];
        for (name, values) in [("a", &large), ("b", &large), ("c", &other), ("d", &vec![3.0; 2])] {
            let attrs = Attrs::from([("value".to_owned(), constant(values))]);
            graph.add(Node {
                name: name.into(),
                kind: "Const".into(),
                attrs,
                output_descs: vec![Desc::new(DType::Float, &[values.len() as i64])],
                ..Node::default()
            });
        }
        graph
    }

    fn in_memory(files: &[WeightFile]) -> BTreeMap<String, Bytes> {
        files.iter().map(|file| (file.name.clone(), file.content.to_vec().into())).collect()
    }

    #[test]
    fn constants_leave_and_come_back() {
        for (placement, count, bytes) in [
            (WeightPlacement::Separate, 2, 1600 + 1200),
            (WeightPlacement::Combined("all".into()), 1, 1600 + 1600 + 1200),
        ] {
            let mut moved = graph();
            let files = take_out(&mut moved, &placement);
            let total: usize = files.iter().map(|file| file.content.length()).sum();
            assert_eq!((files.len(), total), (count, bytes));
            assert!(has_files(&moved) && !has_files(&graph()));
            let kinds: Vec<&str> = moved.nodes().map(|(_, node)| node.kind.as_str()).collect();
            assert_eq!(kinds, ["FileConstant", "FileConstant", "FileConstant", "Const"]);
            let files = in_memory(&files);
            put_back(&mut moved, &WeightFiles::new(None, &files)).unwrap();
            assert_eq!(moved, graph());
        }
    }

    #[test]
    fn files_that_are_missing_or_short_are_named() {
        let mut moved = graph();
        let files = take_out(&mut moved, &WeightPlacement::Combined("all".into()));
        let none = BTreeMap::new();
        let refused = |graph: &Graph, folder: Option<&Path>, files: &BTreeMap<_, _>| {
            let files = WeightFiles::new(folder, files);
            put_back(&mut graph.clone(), &files).unwrap_err()
        };
        let text = refused(&moved, None, &none);
        assert!(text.contains("'all'") && text.contains("ACL_MDL_WEIGHT_PATH_PTR"), "{text}");
        let text = refused(&moved, Some(Path::new("/nowhere")), &none);
        assert!(text.contains("node a") && text.contains("/nowhere/weight/all"), "{text}");
        let short = BTreeMap::from([("all".to_owned(), in_memory(&files)["all"].slice(..1600))]);
        let text = refused(&moved, None, &short);
        assert!(text.contains("1600 bytes") && text.contains("node b"), "{text}");
        for (attr, value, part) in [
            (LENGTH, Attr::Int(7), "length is 7"),
            (OFFSET, Attr::Int(-1), "offset is -1"),
            (OFFSET, Attr::Int(i64::MAX), "9223372036854775807"),
            (SHAPE, Attr::Ints(vec![i64::MAX, 4]), "no sizes"),
            (SHAPE, Attr::Int(1), "no shape"),
            (DTYPE, Attr::Int(999), "no type"),
            (LOCATION, Attr::Text(b"..".to_vec()), "'..'"),
            (LOCATION, Attr::Text(Vec::new()), "names no file"),
        ] {
            let mut wrong = moved.clone();
            wrong.node_mut(0).unwrap().attrs.insert(attr.to_owned(), value);
            let text = refused(&wrong, None, &in_memory(&files));
            assert!(text.contains(part), "{attr}: {text}");
        }
    }
}
