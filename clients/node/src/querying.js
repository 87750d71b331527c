// Runs statements on the caller's connection, as part of its transaction: on a connection of pg, or of a library that contains one.
import { Cluster } from './cluster.js';
import { types } from './values.js';

const has = (...names) => (connection) => names.every((name) => typeof connection[name] === 'function');
const rowsOf = (result) => (Array.isArray(result) ? result : result.rows);

// How to recognize the connections of a library, and how to run a statement on one, which returns the rows.
const LIBRARIES = [
    // An object avoids the type parsers of the application.
    [(it) => 'connectionParameters' in it || 'totalCount' in it, (it, text, values) => it.query({ text, values, types })],
    // Prisma
    [has('$queryRawUnsafe'), (it, text, values) => it.$queryRawUnsafe(text, ...values)],
    // Knex has placeholders of its own.
    [has('raw'), (it, text, values) => it.raw(text.replaceAll(/\$\d+/g, '?'), values)],
    // Kysely. Plugins could rename the columns.
    [has('executeQuery', 'withoutPlugins'), (it, sql, parameters) => it.withoutPlugins().executeQuery(
        { sql, parameters, query: { kind: 'RawNode', sqlFragments: [sql], parameters: [] }, queryId: { queryId: 'jobq' } })],
    // Drizzle. The object has the methods of its class SQL that execute() calls.
    [(it) => has('execute')(it) && 'dialect' in it, (it, sql, params) => it.execute({ getSQL() { return this; }, toQuery: () => ({ sql, params }) })],
    // TypeORM, and objects that are similar to a client of pg
    [has('query'), (it, text, values) => it.query(text, values)],
];

/** Returns the rows. jobs: returns the jobs that the statement enqueues, for a Cluster. */
export async function run(connection, text, values, jobs) {
    if (connection instanceof Cluster) {
        return rowsOf(await (jobs ? connection.enqueue(jobs(), { text, values }) : connection.query({ text, values })));
    }
    const [, query] = (connection ?? undefined) === undefined ? [] : LIBRARIES.find(([isOf]) => isOf(connection)) ?? [];
    if (!query) throw new TypeError('the connection must be a client, a pool, or a transaction of pg, Prisma, Knex, Kysely, Drizzle, or TypeORM');
    return rowsOf(await query(connection, text, values));
}
