// Compiled by tsc but not run: the types of the connections that other libraries have.
import pg from 'pg';
import { drizzle } from 'drizzle-orm/node-postgres';
import knex from 'knex';
import { Kysely } from 'kysely';
import { DataSource } from 'typeorm';
import { PrismaClient } from '../node_modules/.prisma/tests/index.js';
import { enqueue } from 'jobq-client';

export async function produce(pool: pg.Pool, prisma: PrismaClient, kysely: Kysely<{}>, orm: DataSource, knexes: knex.Knex): Promise<void> {
    for (const connection of [prisma, kysely, drizzle(pool), orm, orm.manager, orm.createQueryRunner(), knexes]) await enqueue(connection, 'q');
    await prisma.$transaction(async (tx) => enqueue(tx, 'q'));
    await kysely.transaction().execute((trx) => enqueue(trx, 'q'));
    await drizzle(pool).transaction((tx) => enqueue(tx, 'q'));
    await orm.transaction((manager) => enqueue(manager, 'q'));
    await knexes.transaction((trx) => enqueue(trx, 'q'));
    // @ts-expect-error this is no connection
    await enqueue({}, 'q');
}
