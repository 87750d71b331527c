// The database: connections, transactions with their timeouts, and the rights of the dashboard's role. The only file that uses
// node-postgres.
import pg from 'pg';

// How long the rights of a role are cached.
const RIGHTS_MS = 5000;

// An error that explains why a page cannot be shown. `kind` selects the text in pages/problems.js.
export class Problem extends Error {
  constructor(kind, message, { cause, hint, profile = 'operator', status = 500 } = {}) {
    super(message, { cause });
    this.kind = kind;
    this.hint = hint;
    this.profile = profile;   // the profile of jobq_grant that would allow it
    this.status = status;
  }
}

const CONNECTION_LOST = /^(08|57P0)/;
const NETWORK = new Set(['ECONNREFUSED', 'ECONNRESET', 'ENOENT', 'EPIPE', 'ETIMEDOUT', 'EHOSTUNREACH', 'ENETUNREACH',
  'ENOTFOUND', 'EAI_AGAIN', 'EACCES']);

function isLost(error) {
  return CONNECTION_LOST.test(error.code ?? '') || NETWORK.has(error.code) ||
    /Connection terminated|Query read timeout|timeout exceeded when trying to connect|Client has encountered a connection error|not queryable/.test(error.message);
}

// Converts an error of the server or the network to a Problem with advice for the reader.
export function toProblem(error) {
  if (error instanceof Problem) return error;
  const more = { cause: error, hint: error.hint };
  if (isLost(error)) return new Problem('lost', error.message, { ...more, status: 503 });
  switch (error.code) {
    case '57014':
    case '55P03':
      return new Problem('timeout', error.message, { ...more, status: 504 });
    case '42501':
      return new Problem('right', error.message, { ...more, status: 403 });
    case '53300':
      return new Problem('lost', error.message, { ...more, status: 503 });
    case '3D000':
    case '28000':
    case '28P01':
      return new Problem('login', error.message, { ...more, status: 503 });
    case '23505':
    case '55000':   // the job has changed since the page was shown
      return new Problem('error', error.message, { ...more, status: 409 });
    default:   // class 22: invalid input, such as text that the server cannot convert
      return new Problem('error', error.message, { ...more, status: /^22/.test(error.code ?? '') ? 400 : 500 });
  }
}

const GET_RIGHTS = `
SELECT current_user AS role, current_database() AS database, pg_is_in_recovery() AS standby,
       current_setting('server_version') AS server, e.extversion AS version, quote_ident(n.nspname) AS schema,
       ARRAY(SELECT c.relname::text FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace
             WHERE s.nspname = 'jobq' AND c.relkind IN ('r', 'v') AND has_schema_privilege(s.oid, 'USAGE')
               AND has_table_privilege(c.oid, 'SELECT')) AS tables,
       EXISTS (SELECT FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace
               JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'queue'
               WHERE s.nspname = 'jobq' AND c.relname = 'operator_queues' AND has_schema_privilege(s.oid, 'USAGE')
                 AND has_column_privilege(c.oid, a.attnum, 'SELECT')) AS some_queues,
       ARRAY(SELECT DISTINCT p.proname::text FROM pg_depend d JOIN pg_proc p ON p.oid = d.objid
             WHERE d.classid = 'pg_proc'::regclass AND d.deptype = 'e' AND d.refclassid = 'pg_extension'::regclass
               AND d.refobjid = e.oid AND has_schema_privilege(p.pronamespace, 'USAGE')
               AND has_function_privilege(p.oid, 'EXECUTE')) AS functions
FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'jobq'`;

// Begins a transaction. Overrides the role's own settings that could change what a query means or costs.
function beginning(mode, timeout, role) {
  return `BEGIN ISOLATION LEVEL READ COMMITTED ${mode};
    SET LOCAL statement_timeout = ${timeout}; SET LOCAL lock_timeout = 0;
    SET LOCAL idle_in_transaction_session_timeout = ${timeout + 30000};
    SET LOCAL search_path = pg_catalog, pg_temp; SET LOCAL timezone = 'UTC'; SET LOCAL datestyle = 'ISO, MDY';
    SET LOCAL intervalstyle = 'postgres'; SET LOCAL jit = off; SET LOCAL max_parallel_workers_per_gather = 0${
    role === undefined ? '' : `; SET LOCAL ROLE "${role.replaceAll('"', '""')}"`}`;
}

export class Database {
  constructor(options) {
    this.options = options;
    this.pool = new pg.Pool({
      ...(options.database && { connectionString: options.database }),
      max: 6,
      application_name: 'jobq-web',
      connectionTimeoutMillis: 5000,
      idleTimeoutMillis: 30000,
    });
    // When a server stops, it ends idle connections. The pool removes them, so there is nothing else to do.
    this.pool.on('error', () => {});
    // A connection can break between two queries, even before the pool returns it. Without a listener, the error would end the
    // process.
    this.pool.on('connect', (client) => client.on('error', () => {}));
    this.known = undefined;
    this.knownAt = 0;
  }

  // Returns a database whose transactions have the privileges of another role, of which the own role must be a member.
  as(role) {
    this.roles ??= new Map();
    if (!this.roles.has(role)) this.roles.set(role, Object.assign(Object.create(Database.prototype), { options: this.options, pool: this.pool, role, known: undefined, knownAt: 0 }));
    return this.roles.get(role);
  }

  // Runs `work(query)` in a transaction. Throws a Problem for an error of the server or the network.
  async transaction(mode, timeout, work) {
    let client;
    try {
      client = await this.pool.connect();
    } catch (error) {
      throw toProblem(error);
    }
    const query = async (text, values = []) => {
      const result = await client.query({ text, values, query_timeout: timeout + 10000 });
      return result.rows;
    };
    let broken;
    try {
      await client.query({ text: beginning(mode, timeout, this.role), query_timeout: timeout + 10000 });
      const result = await work(query);
      await client.query('COMMIT');
      return result;
    } catch (error) {
      const problem = toProblem(error);
      broken = problem.kind === 'lost' ? error : undefined;
      if (!broken) await client.query('ROLLBACK').catch((failure) => { broken = failure; });
      throw problem;
    } finally {
      client.release(broken);
    }
  }

  read(work) {
    return this.transaction('READ ONLY', this.options.statementTimeout, work);
  }

  async change(work) {
    if (!this.options.allowChanges) throw new Problem('read-only', 'the dashboard was started without --allow-changes', { status: 403 });
    return this.transaction('READ WRITE', this.options.actionTimeout, work);
  }

  // Returns the role and its rights, from the cache or from a separate transaction.
  async rights() {
    if (this.known && Date.now() - this.knownAt < RIGHTS_MS) return this.known;
    const [row] = await this.read((query) => query(GET_RIGHTS));
    if (!row) throw new Problem('extension', 'the database does not have the extension jobq', { status: 503 });
    const tables = new Set(row.tables);
    const functions = new Set(row.functions);
    this.known = {
      ...row,
      reads: (...names) => names.every((name) => tables.has(name)),
      calls: (...names) => names.every((name) => functions.has(name)),
      // The functions are in the schema in which the extension was created.
      call: (name) => `${row.schema}.${name}`,
    };
    this.knownAt = Date.now();
    return this.known;
  }

  end() {
    return this.pool.end();
  }
}

// Throws a Problem unless the role may read these tables. For pages that need them.
export function mustRead(rights, ...names) {
  const missing = names.filter((name) => !rights.reads(name));
  if (missing.length === 0) return;
  throw new Problem('right', `role "${rights.role}" may not read ${missing.map((name) => `jobq.${name}`).join(', ')}`, { status: 403 });
}
