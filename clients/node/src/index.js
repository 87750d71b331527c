// The public API of the package, except for the test kit in testing.js.
export { createBatch, getBatch, sealBatch } from './batches.js';
export { Cluster } from './cluster.js';
export { ClusterWorker } from './cluster_worker.js';
export { combinedEnqueue } from './combined.js';
export { Cancelled, Fail, OptionError, Release, Snooze, Suspended } from './errors.js';
export { defineKind } from './kinds.js';
export { use } from './middleware.js';
export { optionsOfEnvironment } from './options.js';
export { enqueue, enqueueJobs, enqueueMany } from './producers.js';
export { run } from './run.js';
export { Worker } from './worker.js';
