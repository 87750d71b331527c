// Modules that are loaded with require(): node-postgres, because only require() finds the modules that Debian installs, and the
// OpenTelemetry API, which may be missing.
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
