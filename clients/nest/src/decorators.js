// The decorators of classes with handlers.
'use strict';
const { Injectable, SetMetadata } = require('@nestjs/common');

const PROCESSOR = Symbol('jobq processor');
const HANDLER = Symbol('jobq handler');

/** The class has the handlers of a queue. options: the options of the worker, such as slots. */
function Processor(queue, options = {}) {
    if (typeof queue !== 'string' || queue === '') throw new TypeError(`@Processor() requires the name of a queue; it is ${queue}`);
    return (target) => {
        SetMetadata(PROCESSOR, { queue, options })(target);
        Injectable()(target);
    };
}

/** The method handles the jobs of a kind. kind: '' or omitted for jobs without a kind. */
const JobHandler = (kind = '') => SetMetadata(HANDLER, kind);

module.exports = { HANDLER, JobHandler, PROCESSOR, Processor };
