<?php

declare(strict_types=1);

namespace Jobq\Laravel;

use Illuminate\Database\ConnectionResolverInterface;
use Illuminate\Queue\Connectors\ConnectorInterface;
use InvalidArgumentException;
use PDO;

/** Makes the queue of a queue connection in config/queue.php. */
class JobqConnector implements ConnectorInterface
{
    private const OPTIONS = ['driver', 'connection', 'queue', 'retry_after', 'block_for', 'after_commit'];

    public function __construct(private ConnectionResolverInterface $databases)
    {
    }

    public function connect(array $config): JobqQueue
    {
        foreach (array_diff(array_keys($config), self::OPTIONS) as $unknown) {
            throw new InvalidArgumentException("unknown option \"$unknown\" of a jobq queue connection; valid options are "
                . implode(', ', self::OPTIONS));
        }
        $name = $config['connection'] ?? $this->databases->getDefaultConnection();
        $database = $this->databases->connection($name);
        if ($database->getDriverName() !== 'pgsql') {
            throw new InvalidArgumentException("the database connection \"$name\" must have the driver pgsql, not {$database->getDriverName()}");
        }
        if ($database->getConfig('options')[PDO::ATTR_PERSISTENT] ?? false) {
            throw new InvalidArgumentException("the database connection \"$name\" must not use PDO::ATTR_PERSISTENT,"
                . ' because the worker would then share the connection with the jobs that it runs');
        }
        // Laravel manages this as another connection to the same database, and connects it when it is first used.
        $worker = $this->databases->connection("$name::write");
        return new JobqQueue(
            $database,
            $worker,
            $config['queue'] ?? 'default',
            self::seconds('retry_after', $config['retry_after'] ?? 90),
            isset($config['block_for']) ? self::seconds('block_for', $config['block_for']) : null,
            (bool) ($config['after_commit'] ?? false)
        );
    }

    private static function seconds(string $option, mixed $value): float
    {
        if (!is_numeric($value) || $value <= 0) {
            throw new InvalidArgumentException("option \"$option\" must be a number of seconds greater than 0, not " . json_encode($value));
        }
        return (float) $value;
    }
}
