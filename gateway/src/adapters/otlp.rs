//! Traces over OTLP, as gRPC or as protobuf over HTTP. Spans wait in a bounded queue for one task that sends them in
//! batches: a collector that is slow or dead costs spans, which are counted, and never a call.
//!
//! The protocol is a handful of messages and one request, so it is written here over the HTTP client that is there anyway.

mod proto;
mod send;
mod spans;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use metrics::Metrics;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use self::send::{Failure, Sender};
use crate::config::Tracing;
use crate::ports::clock::Clock;
use crate::ports::traces::{Finished, Traces};

/// A batch that keeps failing is given up after so many attempts.
const ATTEMPTS: u32 = 4;
/// Pause before the second attempt; doubled for each that follows.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest pause that a collector may ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A message that is over, and when it ended.
type Item = (Box<Finished>, SystemTime);

/// Sends spans to a collector.
pub struct Otlp {
    queue: mpsc::Sender<Item>,
    spec: Tracing,
    metrics: Arc<Metrics>,
    clock: Arc<dyn Clock>,
    stop: CancellationToken,
    worker: Mutex<Option<JoinHandle<()>>>,
}

impl Otlp {
    /// Starts the task that sends. Nothing is connected before the first span. To be called within the runtime.
    ///
    /// # Errors
    /// The file of authorities or the endpoint is unusable.
    pub fn start(spec: &Tracing, metrics: Arc<Metrics>, clock: Arc<dyn Clock>) -> Result<Arc<Otlp>, String> {
        let sender = Sender::new(spec).map_err(|why| format!("traces: {why}"))?;
        let (queue, waiting) = mpsc::channel(spec.queue);
        let stop = CancellationToken::new();
        let worker = Worker {
            waiting,
            sender,
            resource: spans::resource(&spec.resource, &Uuid::now_v7().to_string()),
            batch: spec.batch.min(spec.queue),
            delay: spec.delay,
            metrics: Arc::clone(&metrics),
            stop: stop.clone(),
            failing: false,
        };
        let worker = Mutex::new(Some(tokio::spawn(worker.run())));
        Ok(Arc::new(Otlp { queue, spec: spec.clone(), metrics, clock, stop, worker }))
    }
}

#[async_trait]
impl Traces for Otlp {
    fn sampled(&self, trace: &str, parent: Option<bool>) -> bool {
        match parent {
            Some(decided) if self.spec.follow_parent => decided,
            _ => spans::sampled(trace, self.spec.sample),
        }
    }

    fn finished(&self, message: Box<Finished>) {
        let count = spans::count(&message);
        if self.stop.is_cancelled() || self.queue.try_send((message, self.clock.now())).is_err() {
            self.metrics.spans("dropped", count);
        }
    }

    async fn close(&self, within: Duration) {
        self.stop.cancel();
        let worker = self.worker.lock().take();
        let Some(mut worker) = worker else { return };
        if timeout(within, &mut worker).await.is_err() {
            worker.abort();
        }
    }
}

struct Worker {
    waiting: mpsc::Receiver<Item>,
    sender: Sender,
    /// The resource, encoded.
    resource: Vec<u8>,
    batch: usize,
    delay: Duration,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
    failing: bool,
}

impl Worker {
    async fn run(mut self) {
        let mut batch = Vec::with_capacity(self.batch);
        while self.collect(&mut batch).await {
            self.export(&batch).await;
            batch.clear();
        }
    }

    /// Waits for a batch; false when there will be none any more.
    async fn collect(&mut self, batch: &mut Vec<Item>) -> bool {
        let first = tokio::select! {
            first = self.waiting.recv() => first,
            () = self.stop.cancelled() => {
                self.waiting.close();
                self.waiting.recv().await
            }
        };
        let Some(first) = first else { return false };
        batch.push(first);
        let end = Instant::now() + self.delay;
        while batch.len() < self.batch {
            let more = tokio::select! {
                more = timeout_at(end, self.waiting.recv()) => more,
                () = self.stop.cancelled() => Ok(self.waiting.try_recv().ok()),
            };
            match more {
                Ok(Some(item)) => batch.push(item),
                Ok(None) | Err(_) => break,
            }
        }
        true
    }

    async fn export(&mut self, batch: &[Item]) {
        let count = batch.iter().map(|(message, _)| spans::count(message)).sum();
        let body = spans::request(&self.resource, batch);
        let mut pause = PAUSE;
        for attempt in 1..=ATTEMPTS {
            let wait = match self.sender.send(body.clone()).await {
                Ok(()) => {
                    self.metrics.spans("exported", count);
                    if std::mem::take(&mut self.failing) {
                        tracing::info!("the trace collector takes spans again");
                    }
                    return;
                }
                Err(Failure::Never(why)) => {
                    self.say(&why);
                    break;
                }
                Err(Failure::Later(why, wait)) => {
                    self.say(&why);
                    wait.unwrap_or(pause).min(LONGEST_PAUSE)
                }
            };
            // At the end there is one attempt.
            if attempt == ATTEMPTS || self.stop.is_cancelled() {
                break;
            }
            tokio::select! { () = sleep(wait) => {}, () = self.stop.cancelled() => {} }
            pause *= 2;
        }
        self.metrics.spans("failed", count);
    }

    /// Once for each time that the collector begins to fail.
    fn say(&mut self, why: &str) {
        if !std::mem::replace(&mut self.failing, true) {
            tracing::warn!(error = why, "the trace collector takes no spans");
        }
    }
}
