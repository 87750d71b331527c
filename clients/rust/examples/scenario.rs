//! The handlers for the scenarios: see clients/scenarios/README.md.

use jobq::{config_of_environment, no_tls, Error, Job, Options, Worker};
use serde::Deserialize;
use serde_json::{json, Value};
use std::time::Duration;
use tokio::time::sleep;
use tokio_postgres::{SimpleQueryMessage, Transaction};

#[derive(Deserialize, Default)]
#[serde(default)]
struct Payload {
    message: String,
    gate: String,
    before: String,
    r#in: String,
    error: Option<String>,
    times: i32,
    steps: i32,
    delay: f64,
    seconds: f64,
    retry_in: Option<f64>,
    names: Vec<String>,
}

/// Executes a statement on a separate connection, and tries again when it breaks. Returns whether there is a row. Uses the simple query
/// protocol, because tokio-postgres prepares the statements of its other methods, which PgBouncer 1.18 does not support.
async fn ask(job: &Job, statement: &str) -> bool {
    loop {
        if let Ok(client) = job.connect().await {
            if let Ok(messages) = client.simple_query(statement).await {
                return messages.iter().any(|message| matches!(message, SimpleQueryMessage::Row(_)));
            }
        }
        sleep(Duration::from_millis(200)).await;
    }
}

/// Returns the values of a row about this attempt. The texts of the scenarios contain no quotes.
fn values(job: &Job, text: &str) -> String {
    format!("VALUES ({}, {}, '{}')", job.id, job.attempt, text)
}

async fn tell(job: &Job, event: &str) {
    ask(job, &format!("INSERT INTO scenario.events {} RETURNING 1", values(job, event))).await;
}

async fn is_open(job: &Job, gate: &str) -> bool {
    gate.is_empty() || ask(job, &format!("SELECT FROM scenario.gates WHERE name = '{}'", gate)).await
}

/// Returns when the gate is open, or with an error when the handler should stop.
async fn wait(job: &Job, gate: &str) -> Result<(), Error> {
    while !is_open(job, gate).await {
        job.check()?;
        sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

async fn wait_deaf(job: &Job, gate: &str) {
    tell(job, "started").await;
    while !is_open(job, gate).await {
        sleep(Duration::from_millis(100)).await;
    }
}

async fn effect(job: &Job, transaction: &Transaction<'_>, name: &str) -> Result<(), Error> {
    Ok(transaction.batch_execute(&format!("INSERT INTO scenario.effects {}", values(job, name))).await?)
}

async fn echo(_: Job, payload: Value) -> Result<Value, Error> {
    Ok(payload)
}

async fn fail(job: Job, payload: Payload) -> Result<Value, Error> {
    if job.attempt <= payload.times {
        return Err(Error::fail(payload.message));
    }
    Ok(json!({ "attempt": job.attempt }))
}

async fn reject(_: Job, payload: Payload) -> Result<Value, Error> {
    Err(match payload.retry_in {
        Some(seconds) => Error::retry_in(payload.message, Duration::from_secs_f64(seconds)),
        None => Error::reject(payload.message),
    })
}

async fn snooze(job: Job, payload: Payload) -> Result<Value, Error> {
    if job.progress.is_some() {
        return Ok(json!({ "snoozed": true }));
    }
    job.set_progress(&json!({ "snoozed": true }))?;
    Err(Error::Snooze(Duration::from_secs_f64(payload.delay)))
}

async fn waits(job: Job, payload: Payload) -> Result<Value, Error> {
    tell(&job, "started").await;
    if let Err(error) = wait(&job, &payload.gate).await {
        let reason = job.reason().map_or(String::new(), |reason| format!("{:?}", reason).to_lowercase());
        tell(&job, &reason).await;
        return Err(error);
    }
    Ok(json!({ "gate": payload.gate }))
}

async fn deaf(job: Job, payload: Payload) -> Result<Value, Error> {
    wait_deaf(&job, &payload.gate).await;
    Ok(json!({ "gate": payload.gate }))
}

async fn sleeps(job: Job, payload: Payload) -> Result<Value, Error> {
    tell(&job, "started").await;
    sleep(Duration::from_secs_f64(payload.seconds)).await;
    Ok(json!({}))
}

async fn progress(job: Job, payload: Payload) -> Result<Value, Error> {
    tell(&job, "started").await;
    for step in 1..=payload.steps {
        job.set_progress(&json!({ "step": step }))?;
    }
    wait(&job, &payload.gate).await?;
    Ok(json!({ "steps": payload.steps }))
}

async fn transfer(job: Job, payload: Payload) -> Result<Value, Error> {
    wait_deaf(&job, &payload.gate).await;
    let mut client = job.connect().await?;
    let transaction = client.transaction().await?;
    effect(&job, &transaction, "transfer").await?;
    match payload.error {
        Some(message) if job.attempt == 1 => return Err(Error::fail(message)),
        _ => {}
    }
    job.complete_with(transaction, &json!({ "moved": true })).await?;
    Ok(Value::Null)
}

async fn steps(job: Job, payload: Payload) -> Result<Value, Error> {
    tell(&job, "started").await;
    let mut client = job.connect().await?;
    let mut results = Vec::new();
    for name in &payload.names {
        if *name == payload.before {
            wait(&job, &payload.gate).await?;
        }
        let result = match job.step(&client, name).await? {
            Some(saved) => saved,
            None => {
                let transaction = client.transaction().await?;
                effect(&job, &transaction, name).await?;
                job.step_done(transaction, name, &json!({ "name": name })).await?
            }
        };
        results.push(result);
    }
    Ok(json!(results))
}

async fn garbage(job: Job, payload: Payload) -> Result<Value, Error> {
    match payload.r#in.as_str() {
        "error" => return Err(Error::fail("bad \u{fffd}\0 bytes")),
        "result" => return Ok(json!("\0")),
        _ => job.set_progress(&json!("\0"))?,
    }
    waits(job, payload).await
}

async fn poison(job: Job, _: Value) -> Result<Value, Error> {
    tell(&job, "started").await;
    std::process::Command::new("kill").args(["-KILL", &std::process::id().to_string()]).status()?;
    Ok(Value::Null)
}

#[tokio::main]
async fn main() {
    log::set_logger(&LOGGER).expect("the only logger");
    log::set_max_level(log::LevelFilter::Info);
    let ended = match Options::of_environment() {
        Ok(options) => {
            Worker::new(no_tls(config_of_environment()), options)
                .handle("echo", echo)
                .handle("fail", fail)
                .handle("reject", reject)
                .handle("snooze", snooze)
                .handle("wait", waits)
                .handle("deaf", deaf)
                .handle("sleep", sleeps)
                .handle("progress", progress)
                .handle("transfer", transfer)
                .handle("steps", steps)
                .handle("garbage", garbage)
                .handle("poison", poison)
                .run()
                .await
        }
        Err(error) => Err(error),
    };
    if let Err(error) = ended {
        eprintln!("{}", error);
        std::process::exit(1);
    }
    std::process::exit(0); // handlers that have not stopped may still run
}

struct Logger;
static LOGGER: Logger = Logger;

impl log::Log for Logger {
    fn enabled(&self, metadata: &log::Metadata) -> bool {
        metadata.target().starts_with("jobq")
    }
    fn log(&self, record: &log::Record) {
        if self.enabled(record.metadata()) {
            eprintln!("{}: {}", record.level(), record.args());
        }
    }
    fn flush(&self) {}
}
