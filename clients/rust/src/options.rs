//! The options of a worker.

use std::env;
use std::time::Duration;

const LONGEST: Duration = Duration::from_secs(365 * 86400);

/// The options of a worker. `Options::default()` has the default of each option.
#[derive(Clone, Debug)]
pub struct Options {
    /// The queues that the worker serves. They share its slots. The default is the queue `default`.
    pub queues: Vec<String>,
    /// The maximum number of handlers that run at the same time, 1 to 1000. The default is 1.
    pub slots: usize,
    /// Identifies this process to the server. It must be unique, 1 to 255 bytes long, and must not begin with `backend:`. The default is
    /// `HOST-PID-RANDOM`.
    pub worker_id: String,
    /// How long a lease lasts without a heartbeat, at least 10 ms. By default, the job or its queue decides.
    pub heartbeat_timeout: Option<Duration>,
    /// The maximum time between two heartbeats, at least 10 ms. The worker sends heartbeats more often if a lease requires it.
    pub heartbeat_interval: Option<Duration>,
    /// The timeout of one call to jobq_wait_any. The default is 30 s.
    pub wait_timeout: Duration,
    /// How long handlers can continue when the worker stops. The default is 25 s.
    pub grace: Duration,
    /// Whether failure reports contain the class and the causes of the error. The default is true.
    pub error_details: bool,
}

impl Default for Options {
    fn default() -> Self {
        let host = env::var("HOSTNAME").ok().or_else(|| std::fs::read_to_string("/etc/hostname").ok()).unwrap_or_else(|| "host".into());
        Options {
            queues: vec!["default".into()],
            slots: 1,
            worker_id: format!("{}-{}-{:08x}", host.trim(), std::process::id(), rand::random::<u32>()),
            heartbeat_timeout: None,
            heartbeat_interval: None,
            wait_timeout: Duration::from_secs(30),
            grace: Duration::from_secs(25),
            error_details: true,
        }
    }
}

impl Options {
    /// Returns the options in the environment variables `JOBQ_QUEUE` (one or more names, separated by commas), `JOBQ_SLOTS`,
    /// `JOBQ_WORKER_ID`, `JOBQ_HEARTBEAT_TIMEOUT`, `JOBQ_HEARTBEAT_INTERVAL`, `JOBQ_WAIT_TIMEOUT`, and `JOBQ_GRACE`. Times are in
    /// seconds.
    pub fn of_environment() -> Result<Self, String> {
        let mut options = Options::default();
        if let Some(names) = variable("JOBQ_QUEUE") {
            options.queues = names.split(',').map(String::from).collect();
        }
        if let Some(id) = variable("JOBQ_WORKER_ID") {
            options.worker_id = id;
        }
        if let Some(text) = variable("JOBQ_SLOTS") {
            options.slots = text.parse().map_err(|_| format!("option slots (JOBQ_SLOTS) must be an integer from 1 to 1000; it is {:?}", text))?;
        }
        options.heartbeat_timeout = seconds("heartbeat_timeout", "JOBQ_HEARTBEAT_TIMEOUT")?;
        options.heartbeat_interval = seconds("heartbeat_interval", "JOBQ_HEARTBEAT_INTERVAL")?;
        options.wait_timeout = seconds("wait_timeout", "JOBQ_WAIT_TIMEOUT")?.unwrap_or(options.wait_timeout);
        options.grace = seconds("grace", "JOBQ_GRACE")?.unwrap_or(options.grace);
        options.check()?;
        Ok(options)
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        if self.queues.is_empty() {
            return Err("option queues must contain at least one queue".into());
        }
        if !(1..=1000).contains(&self.slots) {
            return Err(format!("option slots must be from 1 to 1000; it is {}", self.slots));
        }
        if self.worker_id.is_empty() || self.worker_id.len() > 255 || self.worker_id.starts_with("backend:") {
            return Err(format!(
                "option worker_id must be 1 to 255 bytes long, and must not begin with \"backend:\"; it is {:?}",
                self.worker_id
            ));
        }
        for (name, value) in [("heartbeat_timeout", self.heartbeat_timeout), ("heartbeat_interval", self.heartbeat_interval)] {
            if let Some(value) = value.filter(|value| *value < Duration::from_millis(10) || *value > LONGEST) {
                return Err(format!("option {} must be at least 10 ms and at most a year; it is {:?}", name, value));
            }
        }
        for (name, value) in [("wait_timeout", self.wait_timeout), ("grace", self.grace)] {
            if value > LONGEST {
                return Err(format!("option {} must be at most a year; it is {:?}", name, value));
            }
        }
        Ok(())
    }
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|text| !text.is_empty())
}

fn seconds(option: &str, name: &str) -> Result<Option<Duration>, String> {
    let text = match variable(name) {
        Some(text) => text,
        None => return Ok(None),
    };
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=LONGEST.as_secs_f64()).contains(&seconds) => Ok(Some(Duration::from_secs_f64(seconds))),
        _ => Err(format!("option {} ({}) must be a number of seconds from 0 to {}; it is {:?}", option, name, LONGEST.as_secs(), text)),
    }
}
