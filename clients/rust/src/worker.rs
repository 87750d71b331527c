//! The worker: its handlers, and how it starts and stops.

use crate::connection::{Connector, Link};
use crate::error::Error;
use crate::heartbeats::Heartbeats;
use crate::job::{Job, Reason};
use crate::options::Options;
use crate::pool::SmallPool;
use crate::sql::sql;
use serde::de::DeserializeOwned;
use serde::Serialize;
use serde_json::json;
use std::any::type_name;
use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::signal::unix::{signal, SignalKind};
use tokio::sync::{watch, Notify};
use tokio::time::{sleep, timeout};

/// The length of waits that cannot be woken, or that use a pooler. The driver does not tell whether there is a pooler, because it hides
/// the process ID that the server reports.
const SHORT_WAIT: Duration = Duration::from_secs(2);
/// The server accepts 4 kB.
const MOST_INFO: usize = 3000;

type Handler = Arc<dyn Fn(Job) -> Pin<Box<dyn Future<Output = Result<Option<String>, Error>> + Send>> + Send + Sync>;

/// What the tasks of a worker share.
pub(crate) struct Shared {
    pub(crate) connector: Connector,
    pub(crate) options: Options,
    pub(crate) kinds: Vec<String>,
    pub(crate) info: Option<String>, // the description of this worker for jobq.workers
    handlers: HashMap<String, Handler>,
    pub(crate) running: Mutex<HashMap<i64, Job>>,   // by lease
    pub(crate) collisions: Mutex<HashMap<i64, u32>>, // number of collisions of the job's own transaction, by job ID
    pub(crate) pool: Mutex<SmallPool>,
    pub(crate) slot_free: Notify,
    pub(crate) stopping: watch::Sender<bool>,
    pub(crate) give_up_at: Mutex<Option<Instant>>, // deadline for the last reports
    pub(crate) unreported: AtomicBool,
    pub(crate) reports: tokio::sync::Mutex<Link>,
    pub(crate) heartbeats: Heartbeats,
}

/// Serves one or more queues.
pub struct Worker {
    connector: Connector,
    options: Options,
    handlers: BTreeMap<String, Handler>,
}

impl Worker {
    pub fn new(connector: Connector, options: Options) -> Self {
        Worker { connector, options, handlers: BTreeMap::new() }
    }

    /// Registers the handler of a kind; the kind "" is that of jobs without a kind. The payload is converted to a P, and the result is
    /// stored as JSON. If the payload is not a P, the attempt fails, and the job is retried, because a worker of another version may
    /// accept it. The handler can use `serde_json::Value` as P, or `Job::payload`, which contains the text.
    pub fn handle<P, R, F, Fut>(mut self, kind: &str, handler: F) -> Self
    where
        P: DeserializeOwned + Send + 'static,
        R: Serialize,
        F: Fn(Job, P) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, Error>> + Send + 'static,
    {
        let handler = Arc::new(handler);
        let each: Handler = Arc::new(move |job: Job| {
            let handler = handler.clone();
            Box::pin(async move {
                let payload = serde_json::from_str::<P>(&job.payload).map_err(|error| {
                    Error::fail(format!("the payload of a job of kind {:?} is not a {}: {}", job.kind, type_name::<P>(), error))
                })?;
                let result = serde_json::to_string(&handler(job, payload).await?)?;
                Ok(Some(result).filter(|text| text != "null"))
            })
        });
        self.handlers.insert(kind.to_string(), each);
        self
    }

    /// Serves the queues until SIGTERM or SIGINT. Then it claims no more jobs, and gives the handlers the grace period to end. A second
    /// signal ends the grace period. Returns an error if the worker could not connect, if the server has refused a claim, or if jobs
    /// could not be reported. Handlers that have not ended after the grace period are dropped, and their jobs are released.
    pub async fn run(self) -> Result<(), String> {
        let mut term = signal(SignalKind::terminate()).map_err(|error| error.to_string())?;
        let mut int = signal(SignalKind::interrupt()).map_err(|error| error.to_string())?;
        let (hurry, first) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (told, then) = (first.clone(), hurry.clone());
        let signals = tokio::spawn(async move {
            tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
            told.notify_one();
            tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
            then.notify_one();
        });
        let ended = self.run_until_told(async move { first.notified().await }, async move { hurry.notified().await }).await;
        signals.abort();
        ended
    }

    /// Like [`Worker::run`], but stops when the future is ready, for programs that handle signals themselves.
    pub async fn run_until(self, stop: impl Future<Output = ()>) -> Result<(), String> {
        self.run_until_told(stop, std::future::pending()).await
    }

    async fn run_until_told(self, stop: impl Future<Output = ()>, hurry: impl Future<Output = ()>) -> Result<(), String> {
        self.options.check()?;
        let kinds: Vec<String> = self.handlers.keys().cloned().collect();
        let shared = Arc::new(Shared {
            info: description(&self.options, &kinds, None),
            heartbeats: Heartbeats::new(),
            reports: tokio::sync::Mutex::new(Link::new(&self.connector)),
            connector: self.connector,
            options: self.options,
            kinds,
            handlers: self.handlers.into_iter().collect(),
            running: Mutex::default(),
            collisions: Mutex::default(),
            pool: Mutex::default(),
            slot_free: Notify::new(),
            stopping: watch::channel(false).0,
            give_up_at: Mutex::default(),
            unreported: AtomicBool::new(false),
        });
        shared.run(stop, hurry).await
    }
}

/// Returns the argument worker_info, or None if it would be too long. `expires_in`: NULL while the worker works.
fn description(options: &Options, kinds: &[String], expires_in: Option<&str>) -> Option<String> {
    let mut info = json!({
        "worker_id": options.worker_id, "queues": options.queues, "kinds": kinds, "slots": options.slots,
        "client": concat!("jobq-rust ", env!("CARGO_PKG_VERSION")),
    });
    if let Some(expires_in) = expires_in {
        info["expires_in"] = json!(expires_in);
    }
    if info.to_string().len() > MOST_INFO {
        info.as_object_mut().map(|info| info.remove("kinds"));
    }
    Some(info.to_string()).filter(|text| text.len() <= MOST_INFO)
}

impl Shared {
    async fn run(self: Arc<Self>, stop: impl Future<Output = ()>, hurry: impl Future<Output = ()>) -> Result<(), String> {
        let id = &self.options.worker_id;
        let mut claims = Link::new(&self.connector);
        let waits = self.open(&mut claims).await?;
        log::info!("{}: serves queues {:?}, kinds {:?}; leaves jobs of other kinds to other workers", id, self.options.queues, self.kinds);
        self.heartbeats.start(self.clone());
        let mut claiming = tokio::spawn(self.clone().claim_all(claims, waits));
        let mut failure = None;
        let mut claims = true;
        tokio::select! {
            _ = stop => {}
            ended = &mut claiming => {
                failure = ended.map_err(|error| error.to_string()).and_then(|ended| ended).err();
                claims = false;
            }
        }
        self.stopping.send_replace(true);
        log::info!("{}: stopping, no more claims", id);
        let grace = async {
            if claims {
                self.wake().await;
                failure = (&mut claiming).await.map_err(|error| error.to_string()).and_then(|ended| ended).err();
            }
            while self.in_hand() > 0 {
                sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::select! {
            _ = timeout(self.options.grace, grace) => {}
            _ = hurry => {}
        }
        // A pooler without a server does not answer.
        let given_back = timeout(Duration::from_secs(10), self.give_back()).await;
        self.heartbeats.stop();
        match given_back {
            Ok(Ok(())) => log::info!("{}: stopped", id),
            Ok(Err(error)) => return Err(error),
            Err(_) => return Err("jobs could not be released: there is no answer".into()),
        }
        failure.map_or(Ok(()), Err)
    }

    /// Opens the first connections, and fails if one of them fails. Returns the length of waits.
    async fn open(&self, claims: &mut Link) -> Result<Duration, String> {
        let wait = self.options.wait_timeout.min(SHORT_WAIT);
        claims.query("SELECT 1").await.map_err(|fault| fault.text)?;
        match self.reports.lock().await.query(&sql!("SELECT jobq_wake({})", self.options.worker_id)).await {
            Ok(_) => Ok(wait),
            Err(fault) if fault.code == "55000" => Ok(wait), // jobq is not preloaded, so nothing can end a wait early
            Err(fault) if fault.code == "42883" => Err(format!("jobq is not in this database: {}", fault.text)),
            Err(fault) => Err(fault.text),
        }
    }

    /// Ends the handlers after the grace period. Handlers that check for cancellation get a second to stop; then the jobs of the other
    /// handlers are released. Waits for the reports of handlers that have ended.
    async fn give_back(&self) -> Result<(), String> {
        let deadline = Instant::now() + Duration::from_secs(5);
        *self.give_up_at.lock().unwrap() = Some(deadline);
        for job in self.held() {
            job.stop(Reason::Stopping);
        }
        for _ in 0..50 {
            if self.in_hand() > 0 {
                sleep(Duration::from_millis(20)).await;
            }
        }
        let mut failure = Ok(());
        for job in self.held() {
            if std::mem::replace(&mut job.state.lock().unwrap().reporting, true) {
                continue;
            }
            match self.report_value(&sql!("SELECT jobq_release({}, {})", job.id, job.lease)).await {
                Ok(Some(released)) if released == "t" => {
                    log::info!("{}: job {} of kind {:?}: released, its handler has not stopped", self.options.worker_id, job.id, job.kind)
                }
                Ok(_) => {}
                Err(fault) => failure = Err(format!("job {} could not be released: {}", job.id, fault.text)),
            }
            self.end(&job);
        }
        while self.in_hand() > 0 && Instant::now() < deadline {
            sleep(Duration::from_millis(20)).await;
        }
        for job in self.held() {
            self.could_not_report(&job);
        }
        if let Some(last) = description(&self.options, &self.kinds, Some("0")) {
            let leave = sql!("SELECT jobq_heartbeat_many('{{}}', '{{}}', {}::jsonb)", last);
            let _ = timeout(Duration::from_secs(1), async { self.reports.lock().await.query(&leave).await.is_ok() }).await;
        }
        if failure.is_ok() && self.unreported.load(Ordering::Relaxed) {
            return Err("not all jobs could be reported".into());
        }
        failure
    }

    pub(crate) fn could_not_report(&self, job: &Job) {
        log::error!("{}: job {} of kind {:?} could not be reported", self.options.worker_id, job.id, job.kind);
        self.unreported.store(true, Ordering::Relaxed);
    }

    pub(crate) fn in_hand(&self) -> usize {
        self.running.lock().unwrap().len()
    }

    pub(crate) fn held(&self) -> Vec<Job> {
        self.running.lock().unwrap().values().cloned().collect()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Ends the wait in the server.
    async fn wake(&self) {
        if let Err(fault) = self.report_value(&sql!("SELECT jobq_wake({})", self.options.worker_id)).await {
            log::warn!("{}: the wait could not be woken: {}", self.options.worker_id, fault.text);
        }
    }

    /// Starts the handler of a claimed job.
    pub(crate) fn begin(self: &Arc<Self>, job: Job) {
        let stopping = self.is_stopping();
        job.state.lock().unwrap().reporting = stopping;
        self.running.lock().unwrap().insert(job.lease, job.clone());
        let shared = self.clone();
        tokio::spawn(async move {
            if stopping {
                shared.report(&job, "released", &sql!("SELECT jobq_release({}, {})", job.id, job.lease)).await.ok();
            } else {
                let handler = shared.handlers[&job.kind].clone();
                let handled = tokio::spawn(handler(job.clone())).await;
                let outcome = handled.unwrap_or_else(|error| match error.try_into_panic() {
                    Ok(value) => Err(Error::panicked(value)),
                    Err(error) => Err(Error::fail(error)),
                });
                shared.conclude(&job, outcome).await;
            }
            shared.end(&job);
        });
    }

    pub(crate) fn end(&self, job: &Job) {
        self.running.lock().unwrap().remove(&job.lease);
        self.slot_free.notify_one();
    }

    /// Returns the heartbeat interval of a job.
    pub(crate) fn interval(&self, job: &Job) -> Duration {
        let own = Duration::from_secs_f64(job.heartbeat_seconds.max(0.01));
        self.interval_of_options().map_or(own, |interval| interval.min(own))
    }

    pub(crate) fn interval_of_options(&self) -> Option<Duration> {
        let timeout = self.options.heartbeat_timeout.map(|timeout| timeout / 3);
        self.options.heartbeat_interval.into_iter().chain(timeout).min()
    }

    /// Tells the pool detection how long an answer has taken.
    pub(crate) fn answered(&self, took: Duration) {
        let shortest = self.held().iter().map(|job| self.interval(job)).chain(self.interval_of_options()).min();
        self.pool.lock().unwrap().answered(&self.options.worker_id, took, shortest);
    }
}
