// What is loaded by require alone: node-postgres, since the modules that Debian installs are found by nothing else, and the API
// of OpenTelemetry, which may not be there.
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);

export const pg = require('pg');

export const openTelemetry = (() => {
    try {
        return require('@opentelemetry/api');
    } catch (error) {
        if (error.code === 'MODULE_NOT_FOUND') return null;
        throw error;
    }
})();
