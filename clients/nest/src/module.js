// The module, which creates the queues that it is asked for, and runs a worker for each processor.
'use strict';
const { Inject, Injectable, Logger, Module } = require('@nestjs/common');
const { DiscoveryModule, DiscoveryService, MetadataScanner, Reflector } = require('@nestjs/core');
const pg = require('pg');
const { HANDLER, PROCESSOR } = require('./decorators.js');
const { Queue, jobq } = require('./queue.js');

const OPTIONS = Symbol('jobq options');
const POOL = Symbol('jobq pool');
const token = (queue) => `jobq queue ${queue}`;

/** Injects the Queue of this name. */
const InjectQueue = (queue) => Inject(token(queue));

const poolProvider = {
    provide: POOL,
    inject: [OPTIONS],
    useFactory: ({ connection }) => {
        const pool = new pg.Pool(typeof connection === 'string' ? { connectionString: connection } : connection);
        pool.on('error', (error) => new Logger('jobq').warn(`an idle connection is broken: ${error.message}`));
        return pool;
    },
};

/** Starts the workers when the application has started, and stops them when it shuts down. */
class Workers {
    constructor(options, pool, discovery, scanner, reflector) {
        Object.assign(this, { options, pool, discovery, scanner, reflector, workers: [], logger: new Logger('jobq') });
    }

    async onApplicationBootstrap() {
        if (this.options.workers === false) return;
        const { Worker } = await jobq();
        const logger = { info: (line) => this.logger.log(line), warn: (line) => this.logger.warn(line), error: (line) => this.logger.error(line) };
        for (const provider of this.discovery.getProviders()) {
            const { instance, metatype } = provider;
            const processor = metatype && this.reflector.get(PROCESSOR, metatype);
            if (!processor) continue;
            if (!provider.isDependencyTreeStatic()) throw new Error(`jobq: the processor ${metatype.name} must not have the scope REQUEST or TRANSIENT`);
            const handlers = this.#handlersOf(instance);
            if (Object.keys(handlers).length === 0) throw new Error(`jobq: the processor ${metatype.name} has no method with @JobHandler()`);
            const { connection } = this.options;
            this.workers.push(new Worker({ connection, logger, ...processor.options, queue: processor.queue, handlers }));
        }
        const started = await Promise.allSettled(this.workers.map((worker) => worker.start()));
        const failed = started.find(({ status }) => status === 'rejected');
        if (failed) {
            await this.#stop();
            throw failed.reason;
        }
        for (const worker of this.workers) {
            worker.stopped.catch((error) => (this.options.onWorkerError ?? exitWith)(error, this.logger));
        }
    }

    async onApplicationShutdown() {
        await this.#stop();
        await this.pool.end();
    }

    async #stop() {
        await Promise.allSettled(this.workers.map((worker) => worker.stop()));
    }

    #handlersOf(instance) {
        const handlers = {};
        for (const name of this.scanner.getAllMethodNames(Object.getPrototypeOf(instance))) {
            const kind = this.reflector.get(HANDLER, instance[name]);
            if (kind === undefined) continue;
            if (kind in handlers) throw new Error(`jobq: ${instance.constructor.name} has two handlers for the kind '${kind}'`);
            handlers[kind] = (job) => instance[name](job);
        }
        return handlers;
    }
}
Injectable()(Workers);
for (const [place, type] of [OPTIONS, POOL, DiscoveryService, MetadataScanner, Reflector].entries()) Inject(type)(Workers, undefined, place);

// The application must not continue without its workers.
function exitWith(error, logger) {
    logger.error(`a worker has ended: ${error.message}`);
    process.kill(process.pid, 'SIGTERM');
    process.exitCode = 1;
}

class JobqModule {
    /**
     * options.connection: a connection string or a configuration of pg; workers: false if this process only enqueues; onWorkerError: a
     * function that is called if a worker ends with an error, instead of ending the process.
     */
    static forRoot(options = {}) {
        return JobqModule.forRootAsync({ useFactory: () => options });
    }

    /** Gets the options from a factory, as in other modules of Nest. */
    static forRootAsync({ imports = [], inject = [], useFactory }) {
        return {
            module: JobqModule,
            global: true,
            imports: [...imports, DiscoveryModule],
            providers: [{ provide: OPTIONS, inject, useFactory }, poolProvider, Workers],
            exports: [POOL],
        };
    }

    /** Makes queues injectable with @InjectQueue(). */
    static registerQueue(...queues) {
        const providers = queues.map((queue) => ({ provide: token(queue), inject: [POOL], useFactory: (pool) => new Queue(queue, pool) }));
        return { module: JobqModule, providers, exports: providers };
    }
}
Module({})(JobqModule);

module.exports = { InjectQueue, JobqModule };
