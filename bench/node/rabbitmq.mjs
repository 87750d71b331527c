// RabbitMQ through amqplib: {port, type, channels, batch}. Each channel has one job at a time, and its acknowledgement lets the
// next job arrive. With batch, a channel has a batch, which one acknowledgement covers, while the next batch arrives. With
// {ahead}, each channel prefetches that many jobs and acknowledges each of them. Publishers wait for their confirms. An
// acknowledgement has no answer in AMQP, so it counts when it has been sent or, in a crash, when the next job has arrived.

import amqp from 'amqplib';
import { writeFileSync } from 'node:fs';
import { action, config, payload, Record, sleep } from './common.mjs';

const QUEUE = 'bench';
const connection = await amqp.connect(`amqp://guest:guest@127.0.0.1:${config.port}`, { noDelay: true });
let gone;
const lost = new Promise((resolve) => { gone = resolve; });
connection.on('error', gone);
connection.on('close', gone);

const body = (number) => Buffer.from(JSON.stringify(payload(number)));
const numberOf = (message) => Number(JSON.parse(message.content.toString()).n);
const publish = (channel, number) => new Promise((resolve, reject) => {
    channel.sendToQueue(QUEUE, body(number), { persistent: true }, (error) => (error ? reject(error) : resolve()));
});

async function declare(channel) {
    await channel.assertQueue(QUEUE, { durable: true, arguments: { 'x-queue-type': config.type } });
}

async function fill() {
    const channel = await connection.createConfirmChannel();
    await channel.deleteQueue(QUEUE);
    await declare(channel);
    for (let begin = 1; begin <= config.jobs; begin += 1000) {
        const confirmed = [];
        for (let n = begin; n < Math.min(begin + 1000, config.jobs + 1); n++) confirmed.push(publish(channel, n));
        await Promise.all(confirmed);
    }
    await connection.close();
}

// Consumers that report each job when it arrives and when its acknowledgement has been sent.
async function consume(told, acknowledged, going) {
    const channels = [];
    for (let i = 0; i < config.channels; i++) {
        const channel = await connection.createChannel();
        channel.on('error', gone);
        await channel.prefetch(config.batch === 1 ? config.ahead ?? 1 : 2 * config.batch);
        let held = [], sent = [];
        await channel.consume(QUEUE, (message) => {
            if (message === null || !going()) return;
            const number = numberOf(message);
            told(number);
            sent.forEach(acknowledged);
            sent = [];
            held.push(number);
            if (held.length < config.batch) return;
            channel.ack(message, config.batch > 1);
            // One job at a time: the next job arrives after the server has received the acknowledgement.
            if (config.awaited) sent = held;
            else held.forEach(acknowledged);
            held = [];
        });
        channels.push(channel);
    }
    return channels;
}

async function work() {
    const record = new Record();
    let going = true;
    const channels = await consume(() => record.begin(), (number) => record.handled(number), () => going);
    await record.measure(config.seconds);
    going = false;
    // When the server confirms that a channel is closed, it has received the acknowledgements. Other jobs return to the queue.
    await Promise.all(channels.map((channel) => channel.close()));
    await connection.close();
    record.log(config.log);
    record.report();
}

async function crash() {
    const lines = [];
    const tell = (kind) => (number) => lines.push(`${kind} ${number}\n`);
    config.awaited = true;
    await consume(tell('d'), tell('a'), () => true);
    let next = config.first;
    const produce = async () => {
        const channel = await connection.createConfirmChannel();
        channel.on('error', gone);
        for (;;) {
            const number = next++;
            await publish(channel, number);
            tell('e')(number);
        }
    };
    for (let i = 0; i < config.producers; i++) produce().catch(gone);
    console.log('ready');
    await lost;
    writeFileSync(config.log, lines.join(''));
    console.log('{"gone": true, "drained": false}');
    process.exit(0);
}

// Returns all jobs that the queue still delivers. A quorum queue delivers at most 2,000 unacknowledged messages. Its message
// count is delayed, so the queue counts as empty only if it reports this twice and nothing arrived in between.
async function left() {
    const channel = await connection.createChannel();
    const numbers = [];
    await channel.consume(QUEUE, (message) => numbers.push(numberOf(message)), { noAck: true });
    for (let before = -1, empty = false; ;) {
        const { messageCount } = await channel.checkQueue(QUEUE);
        if (empty && messageCount === 0 && numbers.length === before) break;
        empty = messageCount === 0;
        before = numbers.length;
        await sleep(200);
    }
    writeFileSync(config.log, numbers.map((number) => `l ${number}\n`).join(''));
    await connection.close();
}

await { fill, work, crash, left }[action]();
process.exit(0);
