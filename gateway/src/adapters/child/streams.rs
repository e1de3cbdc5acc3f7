//! The two ends of a child's standard streams: a writer that never tears a line, a reader that ends at the first
//! line over the limit. Neither looks into a message.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::process::Ender;
use crate::adapters::pipe::Lines;
use crate::ports::upstream::{Fault, FaultKind};

/// What a child that cannot be talked to any more gets to end in order.
const LAST_GRACE: Duration = Duration::from_secs(1);
const CHUNK: usize = 64 * 1024;

/// A message on its way to the child.
pub(crate) struct Outgoing {
    /// Without line ends.
    pub(crate) line: Bytes,
    /// Its bytes' room in the queue, given back once it is written.
    pub(crate) room: OwnedSemaphorePermit,
    /// Told when it has been written whole, or why not.
    pub(crate) written: oneshot::Sender<Result<(), Fault>>,
}

/// The writer's means.
pub(crate) struct Writer {
    pub(crate) lines: mpsc::Receiver<Outgoing>,
    /// Closes stdin when cancelled, in the middle of a line if need be.
    pub(crate) stop: CancellationToken,
    /// How long the child may take to read one line.
    pub(crate) limit: Duration,
    pub(crate) ender: Arc<Ender>,
}

impl Writer {
    /// Writes lines until told to stop, until the child does not take one, or until nobody can send any more. Its
    /// end closes stdin, and the child is ended.
    pub(crate) async fn run(mut self, mut stdin: impl AsyncWrite + Unpin) {
        let stop = self.stop.clone();
        loop {
            let next = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                next = self.lines.recv() => next,
            };
            let Some(Outgoing { line, room, written }) = next else { break };
            let outcome = tokio::select! {
                biased;
                () = stop.cancelled() => Err(Fault::late(FaultKind::Dropped, "the process is being ended")),
                outcome = timeout(self.limit, put(&mut stdin, &line)) => match outcome {
                    Ok(Ok(())) => Ok(()),
                    Ok(Err(error)) => Err(Fault::late(FaultKind::Dropped, format!("stdin: {error}"))),
                    Err(_) => Err(Fault::late(FaultKind::Timeout, "the process does not read its stdin")),
                },
            };
            drop(room);
            let failed = outcome.is_err();
            let _ = written.send(outcome);
            if failed {
                break;
            }
        }
        drop(stdin);
        self.ender.end(LAST_GRACE);
    }
}

async fn put(stdin: &mut (impl AsyncWrite + Unpin), line: &[u8]) -> std::io::Result<()> {
    // One write a message: many servers read by whatever one read brings.
    let mut whole = Vec::with_capacity(line.len() + 1);
    whole.extend_from_slice(line);
    whole.push(b'\n');
    stdin.write_all(&whole).await?;
    stdin.flush().await
}

/// Sends the lines of `stdout` on, up to its end. Returns what broke, None at a plain end. Once nobody listens it
/// reads on and drops, so that a child that is being ended never blocks on its last words.
pub(crate) async fn read(
    mut stdout: impl AsyncRead + Unpin,
    limit: usize,
    lines: &mpsc::Sender<Result<Bytes, Fault>>,
) -> Option<Fault> {
    let mut splitter = Lines::new(limit);
    let mut chunk = vec![0; CHUNK];
    let mut heard = true;
    loop {
        let read = match stdout.read(&mut chunk).await {
            Ok(0) if splitter.is_torn() && heard => {
                return Some(Fault::late(FaultKind::Dropped, "stdout ended within a line"));
            }
            Ok(0) => return None,
            Ok(read) => read,
            Err(error) => return Some(Fault::late(FaultKind::Dropped, format!("stdout: {error}"))),
        };
        let mut rest = chunk.get(..read).unwrap_or_default();
        while heard {
            match splitter.next(&mut rest) {
                Ok(Some(line)) => heard = lines.send(Ok(line)).await.is_ok(),
                Ok(None) => break,
                Err(_) => {
                    let detail = format!("a line on stdout is longer than {limit} bytes");
                    return Some(Fault::late(FaultKind::TooLarge, detail));
                }
            }
        }
    }
}

/// `message` without raw line ends. In JSON they can only stand between tokens, where a space means the same.
pub(crate) fn one_line(message: Bytes) -> Bytes {
    if !message.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
        return message;
    }
    message.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }).collect()
}
