// The error of a configuration that cannot be used.

export class ConfigError extends Error {}
