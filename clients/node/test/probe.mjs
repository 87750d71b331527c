// What tests of liveness share: a port, and an HTTP request to it.
import { once } from 'node:events';
import { createServer } from 'node:net';

/** Returns a port below those that systems assign to clients, so that no other process takes it in the meantime. */
export async function freePort() {
    for (;;) {
        const port = 20_000 + Math.floor(Math.random() * 10_000);
        const server = createServer();
        try {
            server.listen(port);
            await once(server, 'listening');
            return port;
        } catch {
            // Another process has the port.
        } finally {
            server.close();
        }
    }
}

/** Returns the status and the text of the answer. */
export async function probe(port, path = '/') {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, { headers: { connection: 'close' } });
    return [answer.status, (await answer.text()).trim()];
}
