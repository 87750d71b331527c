//! Connections of a worker, which are opened again when they break.

use crate::error::describe;
use std::env;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage, SimpleQueryRow};

/// The maximum time for an answer, because a vanished host sends nothing, and TCP retransmits for about 15 minutes.
pub(crate) const ANSWERED_WITHIN: Duration = Duration::from_secs(30);

/// Opens a connection, and spawns the task that drives it.
pub type Connector = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Result<Client, tokio_postgres::Error>> + Send>> + Send + Sync>;

/// Returns a connector that does not encrypt connections. For TLS, write a similar function with the connector of postgres-native-tls or
/// of another crate.
pub fn no_tls(mut config: Config) -> Connector {
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(Duration::from_secs(10));
    }
    // Keepalives detect a vanished server within a few minutes if no data is in flight.
    config.keepalives_idle(Duration::from_secs(10));
    Arc::new(move || {
        let config = config.clone();
        Box::pin(async move {
            let (client, connection) = config.connect(NoTls).await?;
            tokio::spawn(async move {
                if let Err(error) = connection.await {
                    log::debug!("a connection has ended: {}", error);
                }
            });
            Ok(client)
        })
    })
}

/// Returns the configuration in `PGHOST`, `PGPORT`, `PGUSER`, `PGPASSWORD`, and `PGDATABASE`, with the defaults of libpq.
pub fn config_of_environment() -> Config {
    let of = |name: &str| env::var(name).ok().filter(|text| !text.is_empty());
    let user = of("PGUSER").or_else(|| of("USER")).unwrap_or_else(|| "postgres".into());
    let mut config = Config::new();
    config.host(&of("PGHOST").unwrap_or_else(|| "/var/run/postgresql".into()));
    config.port(of("PGPORT").and_then(|port| port.parse().ok()).unwrap_or(5432));
    config.dbname(&of("PGDATABASE").unwrap_or_else(|| user.clone()));
    config.user(&user);
    if let Some(password) = of("PGPASSWORD") {
        config.password(password);
    }
    config
}

/// Why a statement has no result.
pub(crate) struct Fault {
    /// The SQLSTATE, or an empty text.
    pub(crate) code: String,
    pub(crate) text: String,
    /// Whether the statement needs another try on a new connection, because nobody knows whether it was executed. Collisions with
    /// another transaction only need another try, which a new connection also provides.
    pub(crate) broken: bool,
}

impl Fault {
    fn of(error: &tokio_postgres::Error, closed: bool) -> Self {
        let code = error.code().map_or("", |code| code.code());
        let broken = closed
            || code.is_empty()
            || ["08", "53", "57", "58"].contains(&&code[..2])
            || ["25006", "40001", "40P01"].contains(&code);
        Fault { code: code.into(), text: describe(error), broken }
    }
}

/// A connection that is opened when it is needed.
pub(crate) struct Link {
    connector: Connector,
    client: Option<Client>,
}

impl Link {
    pub(crate) fn new(connector: &Connector) -> Self {
        Link { connector: connector.clone(), client: None }
    }

    /// Executes a statement, and returns its rows. Waits for the answer at most `longest`.
    pub(crate) async fn query_within(&mut self, longest: Duration, statement: &str) -> Result<Vec<SimpleQueryRow>, Fault> {
        if self.client.as_ref().map_or(true, |client| client.is_closed()) {
            self.client = Some((self.connector)().await.map_err(|error| Fault::of(&error, true))?);
        }
        let client = self.client.as_ref().expect("connected above");
        let fault = match timeout(longest, client.simple_query(statement)).await {
            Ok(Ok(messages)) => return Ok(messages.into_iter().filter_map(row).collect()),
            Ok(Err(error)) => Fault::of(&error, client.is_closed()),
            Err(_) => Fault { code: String::new(), text: "there is no answer".into(), broken: true },
        };
        if fault.broken {
            self.client = None;
        }
        Err(fault)
    }

    pub(crate) async fn query(&mut self, statement: &str) -> Result<Vec<SimpleQueryRow>, Fault> {
        self.query_within(ANSWERED_WITHIN, statement).await
    }

    /// Executes a statement that returns one value. NULL and a missing row become None.
    pub(crate) async fn value(&mut self, statement: &str) -> Result<Option<String>, Fault> {
        Ok(self.query(statement).await?.first().and_then(|row| row.get(0)).map(String::from))
    }
}

fn row(message: SimpleQueryMessage) -> Option<SimpleQueryRow> {
    match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    }
}

/// Waits longer after each failed try, up to 5 s, and a random part of it.
pub(crate) async fn pause(tries: u32) {
    let longest = Duration::from_millis(100 << tries.min(6)).min(Duration::from_secs(5));
    sleep(longest.mul_f64(0.5 + rand::random::<f64>() / 2.0)).await;
}
