//! `cairn record`: runs a program with its record switched on, and says what was written.

use std::{
    ffi::{OsStr, OsString},
    fs,
    io::ErrorKind,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result, bail};
use cairn_record::{
    Entry, Happening, Reader,
    layout::{Header, HeaderError},
};
use cairn_runtime::config::MAX_DEVICES;

use crate::{
    ranks::{self, Job, RankGroup, path_of_rank},
    recorded_run::{RecordedRun, Running, Session, files_of_session, read_header},
    run,
    text::format_bytes,
};

/// What `cairn record` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// The file to write; PROGRAM.cairn in the current folder when not given. Further processes of the program get files with
    /// their number appended
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Record the stack of each call too
    #[arg(long)]
    stacks: bool,
    #[command(flatten)]
    ranks: ranks::RankOptions,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    program: Vec<OsString>,
}

/// `cairn record`.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let output = match &arguments.output {
        Some(output) => output.clone(),
        None => default_output(&arguments.program[0]),
    };
    record(&arguments.program, &output, arguments.stacks, arguments.ranks.job()?.as_ref())
}

/// Runs the program with its record in `output`, or in a file for each rank; ends as the program does.
pub fn record(
    program: &[OsString],
    output: &Path,
    stacks: bool,
    job: Option<&Job>,
) -> Result<ExitCode> {
    let output =
        std::path::absolute(output).with_context(|| format!("{} is no path", output.display()))?;
    if let Some(job) = job {
        return record_ranks(program, &output, stacks, job);
    }
    remove_stale(&output)?;
    let session = Session::new(output);
    let mut recorded = match RecordedRun::start(program, &session, stacks, &[])? {
        Ok(recorded) => recorded,
        Err(error) => return Ok(run::not_started(program, &error)),
    };
    recorded.wait(None)?;
    report(&session);
    Ok(recorded.end_like_program())
}

/// Runs the ranks of a job, each with a record of its own. Records of an earlier run with more ranks are removed too.
fn record_ranks(program: &[OsString], output: &Path, stacks: bool, job: &Job) -> Result<ExitCode> {
    let paths: Vec<PathBuf> = job.ranks().map(|rank| path_of_rank(output, rank)).collect();
    paths.iter().try_for_each(|path| remove_stale(path))?;
    for rank in job.ranks().end..MAX_DEVICES as u32 {
        let path = path_of_rank(output, rank);
        if matches!(read_header(&path), Ok(Ok(_))) {
            remove_stale(&path)?;
        }
    }
    let sessions: Vec<Session> = paths.into_iter().map(Session::new).collect();
    let variables = |rank: u32| sessions[rank as usize].variables(stacks);
    let mut group = RankGroup::start(job, program, variables)?;
    group.wait(None)?;
    sessions.iter().for_each(report);
    group.report();
    Ok(ExitCode::from(group.code()))
}

/// `PROGRAM.cairn` in the current folder.
fn default_output(program: &OsStr) -> PathBuf {
    let mut name = Path::new(program).file_name().unwrap_or(program).to_os_string();
    name.push(".cairn");
    name.into()
}

/// Removes the record of an earlier run, with the files of its other processes. Anything else is left alone and named.
fn remove_stale(output: &Path) -> Result<()> {
    let shown = output.display();
    let header = match read_header(output) {
        Ok(header) => header,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let folder = output.parent().unwrap_or(Path::new("/"));
            if !folder.is_dir() {
                bail!("{} is no folder, so {shown} cannot be written", folder.display());
            }
            return Ok(());
        }
        Err(error) => bail!("{shown} cannot be overwritten: {error}"),
    };
    match header {
        Err(HeaderError::Foreign) => {
            bail!("{shown} exists and is not a record: choose another name")
        }
        Ok(Header { session, .. }) if !session.is_empty() => {
            for (path, _) in files_of_session(output, &session) {
                fs::remove_file(&path)
                    .with_context(|| format!("{} cannot be removed", path.display()))?;
            }
            Ok(())
        }
        _ => fs::remove_file(output).with_context(|| format!("{shown} cannot be removed")),
    }
}

/// Says which files there are: one for each process that used the library.
fn report(session: &Session) {
    let files = session.files();
    if files.is_empty() {
        eprintln!("cairn: nothing was recorded: no process of the program used a device");
    }
    for (path, header) in files {
        let shown = path.display();
        let bytes = fs::metadata(&path).map_or(0, |metadata| metadata.blocks() * 512);
        match Reader::open(&path) {
            Ok(mut reader) => {
                let mut has_end = false;
                let is_end = |entry: &Entry<'_>| matches!(entry.happening, Happening::Exit);
                let entries = reader.by_ref().inspect(|entry| has_end |= is_end(entry)).count();
                let (pid, size) = (header.pid, format_bytes(bytes));
                eprintln!("cairn: {shown}: {entries} entries, {size}, process {pid}");
                if !has_end {
                    eprintln!(
                        "cairn: {shown}: the end of the process is not in it: it was ended, or the record could not grow, \
                         which its log says"
                    );
                }
                for damage in reader.damage() {
                    eprintln!("cairn: {shown}: thread {}: {}", damage.thread, damage.reason);
                }
            }
            Err(error) => eprintln!("cairn: {shown} {error}"),
        }
    }
}
