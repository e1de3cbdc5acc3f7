//! The processes that are compared, and how each is reached.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use tempfile::TempDir;

use crate::child::Child;
use crate::load::Target;
use crate::mcp::{Endpoint, Era};
use crate::noise::Ours;
use crate::{Error, Options, config};

/// How long a child may take to say where it listens.
const START: Duration = Duration::from_secs(60);

/// What stands between the load client and the echo server.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Through {
    Direct,
    Pingora,
    Hyper,
    Tollgate,
}

impl Through {
    pub(crate) const ALL: [Through; 4] =
        [Through::Direct, Through::Pingora, Through::Hyper, Through::Tollgate];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Through::Direct => "direct",
            Through::Pingora => "pingora",
            Through::Hyper => "hyper",
            Through::Tollgate => "tollgate",
        }
    }
}

/// One way to the echo server.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) through: Through,
    pub(crate) target: Target,
    /// Tool names carry their server's.
    pub(crate) prefixed: bool,
}

/// Starts children: the echo server first, the others as they are asked for.
pub(crate) struct Stage {
    pub(crate) echo: Child,
    tollgate: Option<PathBuf>,
    threads: usize,
    dir: TempDir,
}

impl Stage {
    pub(crate) fn set(options: &Options) -> Result<Self, Error> {
        let tollgate = if options.without_tollgate { None } else { Some(find_tollgate(options)?) };
        let threads = options.threads.or_else(|| std::thread::available_parallelism().ok().map(usize::from));
        let threads = threads.unwrap_or(1);
        let dir = tempfile::Builder::new().prefix("tollgate-load-").tempdir()?;
        Ok(Self { echo: start_echo(threads, dir.path())?, tollgate, threads, dir })
    }

    pub(crate) fn contenders(&self) -> impl Iterator<Item = Through> {
        let all = self.tollgate.is_some();
        Through::ALL.into_iter().filter(move |through| all || *through != Through::Tollgate)
    }

    /// Another echo server, for when the echo server itself is measured afresh.
    pub(crate) fn another_echo(&self) -> Result<Child, Error> {
        start_echo(self.threads, self.dir.path())
    }

    /// A bare proxy in front of the echo server.
    pub(crate) fn proxy(&self, through: Through) -> Result<Child, Error> {
        let role = format!("{}-proxy", through.word());
        let args = [role.clone(), "--to".into(), self.echo.address.to_string()];
        let threads = ["--threads".into(), self.threads.to_string()];
        Child::start(&role, &[args.as_slice(), &threads].concat(), self.dir.path(), START)
    }

    /// A file that a configuration names.
    pub(crate) fn file(&self, name: &str, text: &str) -> Result<PathBuf, Error> {
        let path = self.dir.path().join(name);
        std::fs::write(&path, text)?;
        Ok(path)
    }

    /// Tollgate with this configuration.
    pub(crate) fn tollgate(&self, name: &str, yaml: &str) -> Result<Child, Error> {
        let binary = self.tollgate.as_ref().ok_or("Tollgate isn't measured in this run")?;
        let name = format!("tollgate-{name}");
        let home = self.dir.path().join(&name);
        std::fs::create_dir_all(&home)?;
        let file = home.join("tollgate.yaml");
        std::fs::write(&file, yaml)?;
        let words = ["exec", "--"].map(String::from);
        let command = [binary.as_path(), Path::new("serve"), Path::new("--config"), &file];
        let command = command.map(|part| part.display().to_string());
        Child::start(&name, &[words.as_slice(), &command].concat(), &home, START)
    }
}

fn start_echo(threads: usize, dir: &Path) -> Result<Child, Error> {
    Child::start("echo", &["echo".into(), "--threads".into(), threads.to_string()], dir, START)
}

fn find_tollgate(options: &Options) -> Result<PathBuf, Error> {
    let beside = std::env::current_exe()?.with_file_name("tollgate");
    let path = options.tollgate.clone().unwrap_or(beside);
    let path = path.canonicalize().map_err(|error| {
        format!(
            "no gateway at {}: {error} (build it, name it with --tollgate, or pass --without-tollgate)",
            path.display()
        )
    })?;
    if path.is_file() { Ok(path) } else { Err(format!("{} is not a file", path.display()).into()) }
}

/// The contenders for the calls, each running once per era or for both.
pub(crate) struct Team {
    children: Vec<Child>,
    pub(crate) places: Vec<Place>,
    pub(crate) ours: Ours,
}

impl Team {
    pub(crate) fn gather(stage: &Stage) -> Result<Self, Error> {
        let mut team = Team { children: Vec::new(), places: Vec::new(), ours: Ours::default() };
        for through in stage.contenders() {
            match through {
                Through::Direct => team.add_both(through, stage.echo.address, stage.echo.pid()),
                Through::Pingora | Through::Hyper => {
                    let child = stage.proxy(through)?;
                    team.add_both(through, child.address, child.pid());
                    team.children.push(child);
                }
                Through::Tollgate => {
                    for era in [Era::Modern, Era::Legacy] {
                        let yaml = config::one_server(stage.echo.address, era);
                        let child = stage.tollgate(era.word(), &yaml)?;
                        team.places.push(tollgate_place(&child, era, false));
                        team.places.push(tollgate_place(&child, era, true));
                        team.children.push(child);
                    }
                }
            }
        }
        let pids = team.children.iter().map(Child::pid).chain([stage.echo.pid()]);
        team.ours = Ours::new(pids.collect::<Vec<_>>());
        Ok(team)
    }

    fn add_both(&mut self, through: Through, address: SocketAddr, pid: i32) {
        self.places.extend([Era::Modern, Era::Legacy].map(|era| place(through, address, pid, era)));
    }

    pub(crate) fn trim_logs(&self) {
        self.children.iter().for_each(Child::trim_log);
    }
}

/// The echo server's own path, reached directly or through a proxy that leaves paths alone.
pub(crate) fn place(through: Through, address: SocketAddr, pid: i32, era: Era) -> Place {
    let endpoint = Endpoint {
        era,
        host: address.to_string(),
        path: era.echo_path().into(),
        session: None,
        bearer: None,
    };
    Place { through, target: Target { address, endpoint, pid }, prefixed: false }
}

/// Tollgate's endpoint for the server `echo`, or the one for all servers.
pub(crate) fn tollgate_place(child: &Child, era: Era, all: bool) -> Place {
    let path = if all { "/mcp" } else { "/servers/echo/mcp" };
    let endpoint =
        Endpoint { era, host: child.address.to_string(), path: path.into(), session: None, bearer: None };
    let target = Target { address: child.address, endpoint, pid: child.pid() };
    Place { through: Through::Tollgate, target, prefixed: all }
}
