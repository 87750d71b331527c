// Checks the files in deploy/ with the schemas of Kubernetes and KEDA from npm, and runs on a server what they contain: the
// statements of the cluster, the query of the ScaledObject, a worker, and the dashboard.
//
// Needs a server with jobq preloaded (PGHOST, PGPORT, PGUSER), and the packages that the suite "deploy" installs.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { request, createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as apps from 'kubernetes-models/apps/v1';
import * as core from 'kubernetes-models/v1';
import * as networking from 'kubernetes-models/networking.k8s.io/v1';
import * as keda from '@kubernetes-models/keda/keda.sh/v1alpha1';
import yaml from 'js-yaml';

const models = { 'apps/v1': apps, v1: core, 'networking.k8s.io/v1': networking, 'keda.sh/v1alpha1': keda };
const patience = 60_000;
let failed = 0;

function check(passed, what, found = '') {
  console.log(`${passed ? 'ok' : 'not ok'} - ${what}`);
  if (!passed) console.log(`# ${String(found).replaceAll('\n', '\n# ')}`);
  failed += passed ? 0 : 1;
}

function attempt(what, body) {
  try {
    body();
    check(true, what);
  } catch (error) {
    check(false, what, error.stderr?.toString() || error.message);
  }
}

const sql = (statement, role = process.env.PGUSER, database = 'shop') => execFileSync('psql',
  ['-XqAt', '-v', 'ON_ERROR_STOP=1', '-U', role, '-d', database, '-c', statement], { stdio: 'pipe' }).toString().trim();

async function eventually(what, condition) {
  const end = Date.now() + patience;
  let found;
  do {
    try {
      found = await condition();
    } catch (error) {
      found = error.message;
    }
    if (found !== true) await new Promise((wake) => setTimeout(wake, 200));
  } while (found !== true && Date.now() < end);
  check(found === true, what, found);
}

const status = (port, path, host) => new Promise((resolve, reject) => {
  request({ port, path, headers: { Host: host } }, (response) => resolve(response.resume().statusCode)).on('error', reject).end();
});

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  return port;
}

const documents = readdirSync('deploy/kubernetes').sort().flatMap((file) =>
  yaml.loadAll(readFileSync(join('deploy/kubernetes', file), 'utf8')).map((document) => ({ file, document })));
const find = (kind, name) => documents.find(({ document }) => document.kind === kind && (!name || document.metadata.name === name)).document;

for (const { file, document } of documents) {
  // npm has no schema of CloudNativePG, whose document is checked by running its statements.
  if (document.kind === 'Cluster') continue;
  attempt(`${file}: ${document.kind} ${document.metadata.name} fits its schema`,
    () => new models[document.apiVersion][document.kind](document).validate());
}

const cluster = find('Cluster').spec;
const [scaled] = [find('ScaledObject').spec];
const worker = find('Deployment', scaled.scaleTargetRef.name).spec.template.spec;
const web = find('Deployment', 'jobq-web').spec.template.spec;
const variables = (pod) => Object.fromEntries(pod.containers[0].env.filter(({ value }) => value).map(({ name, value }) => [name, value]));

sql(`CREATE ROLE ${cluster.bootstrap.initdb.owner} LOGIN`, undefined, 'postgres');
sql(`CREATE DATABASE ${cluster.bootstrap.initdb.database} OWNER ${cluster.bootstrap.initdb.owner}`, undefined, 'postgres');
for (const statement of cluster.bootstrap.initdb.postInitApplicationSQL) attempt(`cluster: ${statement}`, () => sql(statement));
for (const role of cluster.managed.roles)
  attempt(`cluster: the managed role ${role.name} exists`, () => sql(`SET ROLE ${role.name}`));

const trigger = scaled.triggers[0].metadata;
const wanted = () => Number(sql(trigger.query, trigger.userName, trigger.dbName));
check(wanted() === 0, 'the ScaledObject wants no worker for an empty queue');
sql("SELECT count(jobq_enqueue('emails', jsonb_build_object('to', n), kind => 'welcome')) FROM generate_series(1, 40) n", 'shop');
check(wanted() === 10, 'the ScaledObject wants workers for a backlog', wanted());
check(trigger.query.includes(`slots => ${variables(worker).JOBQ_SLOTS})`), 'the query and the worker have the same number of slots');
const slack = 10;   // a worker needs up to 10 s more than its grace to report
check(worker.terminationGracePeriodSeconds > Number(variables(worker).JOBQ_GRACE) + slack, 'Kubernetes waits until the worker has stopped');

// The worker and the dashboard run with the settings of their manifests, on this server.
const ports = { worker: await freePort(), web: await freePort() };
const python = process.env.PYTHON || '/usr/bin/python3';
const handlers = spawn(python, ['-m', 'jobq', 'worker', 'handlers:handlers'], {
  stdio: 'inherit',
  env: { ...process.env, ...variables(worker), PYTHONPATH: 'deploy:clients/python/src', PGHOST: process.env.PGHOST, PGUSER: 'mailer', JOBQ_LIVENESS_PORT: String(ports.worker) },
});
await eventually('the worker completes the backlog', () => sql("SELECT count(*) FROM jobq.jobs WHERE status <> 'completed'") === '0');
await eventually('its liveness port answers', async () => await status(ports.worker, worker.containers[0].livenessProbe.httpGet.path, 'localhost') === 200);
check(wanted() === 0, 'the ScaledObject then wants no worker', wanted());
handlers.kill('SIGTERM');
const [code] = await once(handlers, 'exit');
check(code === 0, 'the worker stops when it is told to', code);

const users = join(mkdtempSync(join(tmpdir(), 'users-')), 'users');
writeFileSync(users, execFileSync('node', ['web/bin/jobq-web.js', '--hash-password'], { input: 'a long secret\n' }).toString().replace(/^/, 'ada:dashboard:'), { mode: 0o600 });
const args = web.containers[0].args.map((arg) => (arg.startsWith('--users=') ? `--users=${users}` : arg));
const dashboard = spawn('node', ['web/bin/jobq-web.js', ...args, `--port=${ports.web}`], {
  stdio: 'inherit',
  env: { ...process.env, ...variables(web), PGHOST: process.env.PGHOST, PGUSER: 'dashboard' },
});
const probe = web.containers[0].readinessProbe.httpGet;
await eventually('the readiness probe of the dashboard succeeds', async () => await status(ports.web, probe.path, probe.httpHeaders[0].value) === 200);
check(await status(ports.web, probe.path, 'localhost') === 503, 'the dashboard rejects another host');
dashboard.kill('SIGTERM');
await once(dashboard, 'exit');

const compose = yaml.load(readFileSync('deploy/compose.yaml', 'utf8'));
for (const [name, service] of Object.entries(compose.services)) {
  check(existsSync(service.build.dockerfile), `compose: the Dockerfile of ${name} exists`, service.build.dockerfile);
  for (const volume of service.volumes ?? []) {
    const [source] = volume.split(':');
    check(source.startsWith('./') ? existsSync(join('deploy', source)) : source in compose.volumes, `compose: ${source} exists`);
  }
  for (const port of service.ports ?? []) check(port.startsWith('127.0.0.1:'), `compose: ${name} listens only on this machine`, port);
}

for (const unit of ['jobq-worker', 'jobq-web'])
  attempt(`systemd accepts ${unit}.service`, () => {
    const output = execFileSync('systemd-analyze', ['verify', '--man=no', `deploy/systemd/${unit}.service`], { stdio: 'pipe', encoding: 'utf8' });
    if (output) throw new Error(output);
  });
const unit = readFileSync('deploy/systemd/jobq-worker.service', 'utf8');
check(Number(/TimeoutStopSec=(\d+)/.exec(unit)[1]) > Number(/JOBQ_GRACE=(\d+)/.exec(unit)[1]) + slack, 'systemd waits until the worker has stopped');

process.exit(failed > 0 ? 1 : 0);
