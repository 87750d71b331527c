//! Needs a database with jobq, selected by PGHOST and so on.

use jobq::{config_of_environment, enqueue, no_tls, Enqueued, Job, Options, Worker};
use serde::{Deserialize, Serialize};
use serde_json::{json, Value};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_postgres::Client;

async fn connect() -> Client {
    no_tls(config_of_environment())().await.expect("a database with jobq")
}

fn options(queue: &str) -> Options {
    Options { queues: vec![queue.into()], slots: 2, ..Options::default() }
}

struct Running(oneshot::Sender<()>, JoinHandle<Result<(), String>>);

fn start(worker: Worker) -> Running {
    let (stop, stopped) = oneshot::channel();
    Running(stop, tokio::spawn(worker.run_until(async move { stopped.await.unwrap_or(()) })))
}

impl Running {
    async fn stop(self) {
        self.0.send(()).ok();
        tokio::time::timeout(Duration::from_secs(60), self.1).await.expect("stops").unwrap().unwrap();
    }
}

/// Waits until the query returns true.
async fn until(client: &Client, query: &str, id: i64) {
    let end = Instant::now() + Duration::from_secs(60);
    while Instant::now() < end {
        if client.query_one(query, &[&id]).await.unwrap().get(0) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("not after a minute: {}", query);
}

#[derive(Serialize, Deserialize)]
struct Mail {
    to: String,
    subject: String,
}

#[tokio::test(flavor = "multi_thread")]
async fn handlers_are_typed() {
    let client = connect().await;
    let worker = Worker::new(no_tls(config_of_environment()), options("rust typed")).handle("send_mail", |job: Job, mail: Mail| async move {
        job.log(format!("to {}", mail.to));
        assert_eq!(job.max_attempts, 3);
        Ok(json!({ "message": format!("{} sent to {}", mail.subject, mail.to) }))
    });
    let worker = start(worker);
    let mail = Mail { to: "ada".into(), subject: "it's \\ é".into() };
    let specs = [json!({"queue": "rust typed", "kind": "send_mail", "payload": mail, "max_attempts": 3})];
    let id = enqueue(&client, &specs).await.unwrap()[0].id;
    until(&client, r#"SELECT status = 'completed' AND result->>'message' = E'it''s \\ é sent to ada' FROM jobq.jobs WHERE id = $1"#, id).await;
    until(&client, "SELECT count(*) = 1 FROM jobq.log_lines WHERE job_id = $1 AND line = 'to ada'", id).await;
    let wrong = json!({"queue": "rust typed", "kind": "send_mail", "payload": [1], "max_attempts": 1});
    let id = enqueue(&client, &[wrong]).await.unwrap()[0].id;
    until(&client, "SELECT status = 'failed' AND error LIKE '%is not a worker::Mail%' FROM jobq.jobs WHERE id = $1", id).await;
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_have_details() {
    let client = connect().await;
    let worker = Worker::new(no_tls(config_of_environment()), options("rust details"))
        .handle("parse", |_: Job, _: Value| async move { Ok("x".parse::<i32>()?) })
        .handle("panic", |job: Job, _: Value| async move {
            assert!(job.id < 0, "no answer");
            Ok(())
        });
    let worker = start(worker);
    let specs = ["parse", "panic"].map(|kind| json!({"queue": "rust details", "kind": kind, "max_attempts": 1}));
    let ids = enqueue(&client, &specs).await.unwrap();
    until(&client, "SELECT status = 'failed' AND error LIKE 'core::num::error::ParseIntError: invalid digit%' FROM jobq.jobs WHERE id = $1", ids[0].id).await;
    until(&client, "SELECT details->>'class' LIKE '%ParseIntError' FROM jobq.attempts WHERE job_id = $1", ids[0].id).await;
    until(&client, "SELECT status = 'failed' AND error = 'panic: no answer' FROM jobq.jobs WHERE id = $1", ids[1].id).await;
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn enqueue_joins_the_transaction() {
    let mut client = connect().await;
    let transaction = client.transaction().await.unwrap();
    let gone = enqueue(&transaction, &[json!({"queue": "rust joined"})]).await.unwrap()[0].id;
    transaction.rollback().await.unwrap();
    until(&client, "SELECT count(*) = 0 FROM jobq.jobs WHERE id = $1", gone).await;
    let spec = json!({"queue": "rust joined", "unique_key": "one"});
    let kept = enqueue(&client, &[spec.clone()]).await.unwrap()[0];
    let again = enqueue(&client, &[spec, json!({"queue": "rust joined"})]).await.unwrap();
    assert_eq!(again[0], Enqueued { id: kept.id, is_new: false });
    assert!(kept.is_new && again[1].is_new);
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_run_once() {
    let client = connect().await;
    let worker = Worker::new(no_tls(config_of_environment()), options("rust steps")).handle("", |job: Job, _: Value| async move {
        let mut client = job.connect().await?;
        let first = match job.step(&client, "first").await? {
            Some(saved) => saved,
            None => {
                let transaction = client.transaction().await?;
                job.step_done(transaction, "first", &job.attempt).await?
            }
        };
        job.sleep(&client, "nap", Duration::from_millis(1)).await?;
        let transaction = client.transaction().await?;
        job.complete_with(transaction, &first).await?;
        Ok(Value::Null)
    });
    let worker = start(worker);
    let id = enqueue(&client, &[json!({"queue": "rust steps"})]).await.unwrap()[0].id;
    until(&client, "SELECT status = 'completed' AND result = '1' FROM jobq.jobs WHERE id = $1", id).await;
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_are_shown() {
    let client = connect().await;
    let shown = options("rust shown");
    let worker_id = shown.worker_id.clone();
    let worker = start(Worker::new(no_tls(config_of_environment()), shown).handle("kind", |_: Job, _: Value| async move { Ok(()) }));
    let id = client.query_one("SELECT jobq_enqueue('rust other')", &[]).await.unwrap().get(0);
    let query = format!("SELECT $1::bigint > 0 AND count(*) = 1 FROM jobq.workers WHERE worker_id = '{}' AND slots = 2 AND client LIKE 'jobq-rust%'", worker_id);
    until(&client, &query, id).await;
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn options_are_checked() {
    for (name, wrong) in [
        ("slots", Options { slots: 1001, ..Options::default() }),
        ("worker_id", Options { worker_id: "backend:1".into(), ..Options::default() }),
        ("heartbeat_timeout", Options { heartbeat_timeout: Some(Duration::from_millis(1)), ..Options::default() }),
        ("queues", Options { queues: vec![], ..Options::default() }),
    ] {
        let error = Worker::new(no_tls(config_of_environment()), wrong).run().await.unwrap_err();
        assert!(error.contains(name), "{}", error);
    }
}
