// A proxy between pg and the server. It loses the answer to the first statement with a given text: it breaks the connection when
// the server has sent the answer.
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import process from 'node:process';

/** lose(text): which statement's answer is lost next; lost: how many were. */
export async function losingProxy() {
    const proxy = { next: null, lost: 0, lose(text) { this.next = text; } };
    const sockets = new Set();
    const listener = createServer((from) => {
        const { PGHOST = '127.0.0.1', PGPORT = '5432' } = process.env;
        const to = PGHOST.startsWith('/') ? connect(`${PGHOST}/.s.PGSQL.${PGPORT}`) : connect(Number(PGPORT), PGHOST);
        let losing = false;
        for (const [one, other] of [[from, to], [to, from]]) {
            sockets.add(one);
            one.on('error', () => other.destroy());
            one.on('close', () => other.destroy());
        }
        from.on('data', (data) => {
            if (proxy.next && data.includes(proxy.next)) {
                proxy.next = null;
                losing = true;
            }
            to.write(data);
        });
        to.on('data', (data) => {
            if (!losing) {
                from.write(data);
                return;
            }
            // ReadyForQuery: the server has executed the statement and has committed.
            if (data.subarray(-6, -1).equals(Buffer.from([0x5a, 0, 0, 0, 5]))) {
                proxy.lost += 1;
                from.destroy();
            }
        });
    });
    listener.listen(0, '127.0.0.1');
    await once(listener, 'listening');
    proxy.port = listener.address().port;
    proxy.close = () => {
        for (const socket of sockets) socket.destroy();
        listener.close();
    };
    return proxy;
}
