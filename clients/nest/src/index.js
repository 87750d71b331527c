// The Nest module: JobqModule, the decorators Processor, JobHandler, and InjectQueue, and the class Queue.
'use strict';
const { JobHandler, Processor } = require('./decorators.js');
const { InjectQueue, JobqModule } = require('./module.js');
const { Queue } = require('./queue.js');

module.exports = { InjectQueue, JobHandler, JobqModule, Processor, Queue };
