// Runs examples/top.sql in a real psql: once, and repeatedly.
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { becomesTrue, is, like } from './harness.mjs';

const script = process.env.WEB_TOP ?? fileURLToPath(new URL('../../examples/top.sql', import.meta.url));

function psql(role, ...args) {
  const child = spawn('psql', ['-X', '-v', 'ON_ERROR_STOP=1', ...args, '-f', script], { env: { ...process.env, PGUSER: role }, stdio: ['ignore', 'pipe', 'pipe'] });
  const output = { text: '', errors: '' };
  child.stdout.on('data', (data) => { output.text += data; });
  child.stderr.on('data', (data) => { output.errors += data; });
  const ended = new Promise((resolve) => { child.on('exit', (code) => resolve(code)); });
  return { child, output, ended };
}

export async function top({ value, sql }) {
  for (const role of ['dash_monitor', 'dash_operator']) {
    const once = psql(role, '-v', 'once=1', '-v', 'rows=3');
    is([await once.ended, once.output.errors], [0, ''], `top: a ${role} can run it`);
    const lines = once.output.text.trim().split('\n');
    is(lines.length, 5, 'top: it shows the requested number of rows');
    like(lines[2], /backlog \(paused\)\s+\|\s+120 \|\s+0 \|/, 'top: the busiest queue comes first, with its numbers');
  }
  const watch = psql('dash_monitor', '-v', 'every=1');
  await becomesTrue('it shows the queues', () => watch.output.text.includes('idle'));
  const job = await value("SELECT jobq_enqueue('a new queue')");
  await becomesTrue('it shows them again', () => watch.output.text.includes('a new queue'));
  watch.child.kill('SIGINT');
  await watch.ended;
  is(watch.output.errors, '', 'top: it repeats the list of queues until it is ended');
  await sql('SELECT jobq_cancel($1)', [job]);
}
