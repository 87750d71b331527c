// Tests that a table keeps the charts.
import { Database } from '../lib/database.js';
import { History } from '../lib/history.js';
import { parseOptions } from '../lib/options.js';
import { SERIES } from '../lib/sampler.js';
import { becomesTrue, dashboard, is, request } from './harness.mjs';

export async function charts({ db, env }) {
  await db.sql('CREATE SCHEMA dashboard AUTHORIZATION dash_operator');
  await db.sql('CREATE TABLE dashboard.history (span text, bucket bigint, stats jsonb, PRIMARY KEY (span, bucket))');
  await db.sql('ALTER TABLE dashboard.history OWNER TO dash_operator');
  const options = parseOptions(['--history', 'dashboard.history']);
  const database = new Database(options);
  try {
    // An hour ago, a dashboard took one sample, and ten minutes later another one.
    let at = Date.now() - 3600000;
    const history = new History(SERIES, { database, table: options.history, now: () => at });
    history.add(new Map([['emails', [4711, ...Array(SERIES.length - 1).fill(null)]]]), [4712, ...Array(SERIES.length - 1).fill(0)]);
    at += 600000;
    await history.save();
    await history.save();
    is(await db.value("SELECT count(*)::int FROM dashboard.history WHERE span = '24h'"), 1, 'history: the table contains what has ended, once');
    await db.sql("INSERT INTO dashboard.history VALUES ('24h', 1, '{}')");
    history.add(new Map(), SERIES.map(() => 0));
    at += 600000;
    await history.save();
    is(await db.value("SELECT count(*)::int FROM dashboard.history WHERE span = '24h' AND bucket = 1"), 0, 'history: old rows are deleted');
  } finally {
    await database.end();
  }
  const board = await dashboard({ args: ['--history', 'dashboard.history', '--sample-interval', '500ms'], env });
  for (const [path, value] of [['/?range=24h', '4,712'], ['/queue?name=emails&range=24h', '4,711']]) {
    await becomesTrue(`${path} shows the value`, async () => (await request(board.address, { path })).text.includes(`: ${value}</title>`));
    is((await request(board.address, { path: path.replace('24h', 'x') })).text.includes(`: ${value}</title>`), false, `history: ${path} shows what another dashboard has kept, and only there`);
  }
  await board.stop();
  await db.sql('DROP SCHEMA dashboard CASCADE');
}
