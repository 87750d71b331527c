// What the configuration accepts. Needs no server.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parseConfiguration } from '../src/configuration.js';
import { ConfigError } from '../src/errors.js';
import { Push } from '../src/push.js';

const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const endpoint = { name: 'a', queues: ['q'], kinds: ['k'], url: 'https://example.com/f', secrets: [secret] };
const valid = { allowedHosts: ['example.com'], endpoints: [endpoint] };
const parsed = (change) => parseConfiguration(JSON.stringify({ ...valid, ...change }));
const withEndpoint = (change, rest) => parsed({ ...rest, endpoints: [{ ...endpoint, ...change }] });

test('the options have their defaults', () => {
    const { endpoints: [found], reports, worker } = parsed({});
    assert.deepEqual([found.timeout, found.concurrency, found.maxResponseBytes, found.maxRetryAfter, found.reportTimeout, found.circuit],
        [30, 10, 65536, 3600, 86400, { failures: 10, openFor: 30 }]);
    assert.deepEqual([reports, worker], [undefined, {}]);
});

test('an error about a wrong value names the option', () => {
    const cases = [
        [() => parseConfiguration('{'), /^the file is not valid JSON/],
        [() => parseConfiguration('[]'), /^the file must contain an object$/],
        [() => parsed({ endpoint: [] }), /^option "endpoint" is unknown; the options here are connection, allowedHosts/],
        [() => parsed({ connection: 'host=localhost' }), /^option "connection" must be a URL/],
        [() => parsed({ connection: 5 }), /^option "connection" must be a text/],
        [() => parsed({ allowedHosts: undefined }), /^option "allowedHosts" must be an array of 1 to 100 elements, but is missing/],
        [() => parsed({ allowedHosts: ['https://example.com'] }), /^option "allowedHosts\[0\]" must be a host name/],
        [() => parsed({ allowedHttpHosts: 'x' }), /^option "allowedHttpHosts" must be an array/],
        [() => parsed({ allowedHttpHosts: ['example.org'] }), /^option "allowedHttpHosts\[0\]" is "example.org", which is not in allowedHosts/],
        [() => parsed({ allowedAddresses: ['10.0.0.0/33'] }), /^option "allowedAddresses\[0\]" must be an address or a range/],
        [() => parsed({ worker: { slots: 3 } }), /^option "worker.slots" is unknown/],
        [() => new Push(parsed({ worker: { grace: -1 } })), /^option "worker.grace" must be seconds/],
        [() => parsed({ endpoints: [] }), /^option "endpoints" must be an array of 1 to 100/],
        [() => withEndpoint({ retries: 3 }), /^option "endpoints\[0\]\.retries" is unknown/],
        [() => withEndpoint({ name: 'A b' }), /^option "endpoints\[0\]\.name" must be a name/],
        [() => withEndpoint({ queues: [] }), /^option "endpoints\[0\]\.queues" must be an array of 1/],
        [() => withEndpoint({ queues: [''] }), /^option "endpoints\[0\]\.queues\[0\]" must be the name of a queue/],
        [() => withEndpoint({ kinds: ['é'.repeat(32)] }), /^option "endpoints\[0\]\.kinds\[0\]" must be a kind/],
        [() => withEndpoint({ kinds: ['k', 'k'] }), /^option "endpoints\[0\]\.kinds" must not contain "k" twice/],
        [() => withEndpoint({ timeout: 0 }), /^option "endpoints\[0\]\.timeout" must be a number from 0.1 to 86400, but is 0$/],
        [() => withEndpoint({ concurrency: 1.5 }), /^option "endpoints\[0\]\.concurrency" must be a whole number from 1 to 1000/],
        [() => withEndpoint({ maxResponseBytes: '1' }), /^option "endpoints\[0\]\.maxResponseBytes" must be/],
        [() => withEndpoint({ maxRetryAfter: 0 }), /^option "endpoints\[0\]\.maxRetryAfter" must be/],
        [() => withEndpoint({ reportTimeout: 5 }), /^option "endpoints\[0\]\.reportTimeout" needs the option "reports"/],
        [() => withEndpoint({ circuit: { failures: 0 } }), /^option "endpoints\[0\]\.circuit\.failures" must be/],
        [() => withEndpoint({ circuit: { opens: 1 } }), /^option "endpoints\[0\]\.circuit\.opens" is unknown/],
        [() => withEndpoint({ secrets: [] }), /^option "endpoints\[0\]\.secrets" must be an array of 1 to 5 secrets/],
        [() => withEndpoint({ secrets: ['whsec_c2hvcnQ='] }), /^option "endpoints\[0\]\.secrets\[0\]" must be 24 to 64 bytes in base64/],
        [() => withEndpoint({ secrets: [{ env: 'JOBQ_PUSH_NOT_SET' }] }), /^option "endpoints\[0\]\.secrets\[0\]" needs the environment variable "JOBQ_PUSH_NOT_SET"/],
        [() => withEndpoint({ secrets: [{ file: '/no/such/file' }] }), /^option "endpoints\[0\]\.secrets\[0\]" needs a file that can be read: ENOENT/],
        [() => withEndpoint({ secrets: [{ file: 'a', env: 'b' }] }), /^option "endpoints\[0\]\.secrets\[0\]" must be a text, \{"env"/],
        [() => withEndpoint({ url: 'example.com' }), /^option "endpoints\[0\]\.url" must be a URL/],
        [() => withEndpoint({ url: 'ftp://example.com' }), /^option "endpoints\[0\]\.url" must begin with https:/],
        [() => withEndpoint({ url: 'https://user:hidden@example.com' }), /^option "endpoints\[0\]\.url" must not contain a user name/],
        [() => withEndpoint({ url: 'https://example.org' }), /^option "endpoints\[0\]\.url" has the host "example.org", which is not in allowedHosts/],
        [() => withEndpoint({ url: 'https://xexample.com' }, { allowedHosts: ['*.example.com'] }), /which is not in allowedHosts/],
        [() => withEndpoint({ url: 'http://example.com' }), /^option "endpoints\[0\]\.url" must begin with https:.* not in allowedHttpHosts/],
        [() => withEndpoint({ url: 'https://10.1.2.3' }, { allowedHosts: ['10.1.2.3'] }), /has the address 10.1.2.3, which is not public/],
        [() => withEndpoint({ url: 'https://0x7f.1' }, { allowedHosts: ['127.0.0.1'] }), /has the address 127.0.0.1, which is not public/],
        [() => withEndpoint({ url: 'https://[::1]' }, { allowedHosts: ['::1'] }), /has the address ::1, which is not public/],
        [() => parsed({ endpoints: [endpoint, { ...endpoint, queues: ['r'] }] }), /^option "endpoints\[1\]" must not have the name "a", which endpoints\[0\] has/],
        [() => parsed({ endpoints: [endpoint, { ...endpoint, name: 'b', kinds: ['j', 'k'] }] }), /^option "endpoints\[1\]" must not have the kind "k" of the queue "q"/],
        [() => parsed({ reports: {} }), /^option "reports.listen" must be an address and a port/],
        [() => parsed({ reports: { listen: '127.0.0.1:0', url: 'https://x' } }), /^option "reports.listen" must be/],
        [() => parsed({ reports: { listen: '127.0.0.1:80' } }), /^option "reports.url" must be a text/],
        [() => parsed({ reports: { listen: '127.0.0.1:80', url: 'https://x/?a' } }), /^option "reports.url" must not contain a query/],
    ];
    for (const [work, message] of cases) {
        assert.throws(work, (error) => {
            assert.ok(error instanceof ConfigError, error.stack);
            assert.match(error.message, message);
            assert.doesNotMatch(error.message, /hidden|c2hvcnQ/);
            return true;
        });
    }
});

test('hosts, sources of secrets, and paths of reports', (t) => {
    const directory = mkdtempSync(join(tmpdir(), 'jobq-push-'));
    t.after(() => rmSync(directory, { recursive: true }));
    writeFileSync(join(directory, 'secret'), `${secret}\n`);
    process.env.JOBQ_PUSH_SECRET = secret.slice(6);
    const { endpoints: [found], reports } = withEndpoint(
        { url: 'http://a.b.example.com:81/x?key=y', secrets: [{ file: join(directory, 'secret') }, { env: 'JOBQ_PUSH_SECRET' }, secret], reportTimeout: 5 },
        { allowedHosts: ['*.example.com'], allowedHttpHosts: ['a.b.example.com'], reports: { listen: '[::1]:8640', url: 'https://push.example.com/jobq/' } });
    assert.equal(found.url.href, 'http://a.b.example.com:81/x?key=y');
    assert.deepEqual(found.keys.map((key) => key.equals(found.keys[0])), [true, true, true]);
    assert.deepEqual(reports, { host: '::1', port: 8640, url: 'https://push.example.com/jobq', path: '/jobq' });
    withEndpoint({ url: 'https://10.1.2.3' }, { allowedHosts: ['10.1.2.3'], allowedAddresses: ['10.1.0.0/16'] });
});

test('the command line', (t) => {
    const directory = mkdtempSync(join(tmpdir(), 'jobq-push-'));
    t.after(() => rmSync(directory, { recursive: true }));
    const file = join(directory, 'push.json');
    const program = fileURLToPath(new URL('../bin/jobq-push.js', import.meta.url));
    const said = (...given) => {
        const { status, stdout, stderr } = spawnSync(process.execPath, [program, ...given], { encoding: 'utf8' });
        return [status, stdout + stderr];
    };
    const is = ([status, text], wanted, pattern) => {
        assert.equal(status, wanted, text);
        assert.match(text, pattern);
    };
    is(said('--help'), 0, /^usage: jobq-push \[--check\] CONFIGURATION/);
    is(said(), 2, /^jobq-push: the name of one configuration file is required/);
    is(said('--wrong'), 2, /^jobq-push: Unknown option '--wrong'/);
    is(said(file), 2, /the file cannot be read: ENOENT/);
    writeFileSync(file, JSON.stringify({ ...valid, endpoints: [{ ...endpoint, timeout: 'long' }] }));
    is(said(file), 2, /push\.json: option "endpoints\[0\]\.timeout" must be a number from 0.1 to 86400, but is "long"\n$/);
    writeFileSync(file, JSON.stringify({ ...valid, connection: 'postgres://127.0.0.1:1/x' }));
    is(said('--check', file), 0, /push\.json is valid/);
    is(said(file), 1, /ECONNREFUSED/);
});
