<?php

declare(strict_types=1);

namespace Jobq\Messenger;

use Doctrine\DBAL\Connection;
use Doctrine\DBAL\DriverManager;
use Doctrine\Persistence\ConnectionRegistry;
use InvalidArgumentException as UnknownConnection;
use Psr\Log\LoggerInterface;
use Symfony\Component\Messenger\Exception\InvalidArgumentException;
use Symfony\Component\Messenger\Transport\Receiver\KeepaliveReceiverInterface;
use Symfony\Component\Messenger\Transport\Serialization\SerializerInterface;
use Symfony\Component\Messenger\Transport\TransportFactoryInterface;
use Symfony\Component\Messenger\Transport\TransportInterface;

/** Makes transports for jobq://CONNECTION (a connection of Doctrine) and jobq://USER:PASSWORD@HOST:PORT/DATABASE. */
final class JobqTransportFactory implements TransportFactoryInterface
{
    private const DEFAULTS = ['queue' => 'default', 'redeliver_timeout' => 3600, 'wait' => 0];

    public function __construct(private LoggerInterface $logger, private ?ConnectionRegistry $registry = null)
    {
    }

    public function supports(#[\SensitiveParameter] string $dsn, array $options): bool
    {
        return str_starts_with($dsn, 'jobq://');
    }

    public function createTransport(#[\SensitiveParameter] string $dsn, array $options, SerializerInterface $serializer): TransportInterface
    {
        $parts = parse_url($dsn);
        if ($parts === false || !isset($parts['host'])) {
            throw new InvalidArgumentException('the DSN of a jobq transport must have the form jobq://CONNECTION?queue=NAME'
                . ' or jobq://USER:PASSWORD@HOST:PORT/DATABASE?queue=NAME');
        }
        parse_str($parts['query'] ?? '', $query);
        unset($options['transport_name']);
        $options += $query;
        foreach (array_diff_key($options, self::DEFAULTS) as $unknown => $value) {
            throw new InvalidArgumentException("unknown option \"$unknown\" of a jobq transport; valid options are "
                . implode(', ', array_keys(self::DEFAULTS)));
        }
        $options += self::DEFAULTS;
        $timeout = self::seconds('redeliver_timeout', $options['redeliver_timeout'], 0.01);
        $wait = self::seconds('wait', $options['wait'], 0);
        [$sender, $worker] = isset($parts['path']) ? self::connect($parts) : $this->find($parts['host']);
        $class = interface_exists(KeepaliveReceiverInterface::class) ? KeepaliveJobqTransport::class : JobqTransport::class;
        return new $class($sender, $worker, $serializer, $this->logger, (string) $options['queue'], $timeout, $wait);
    }

    /** @return Connection[] the connection of the application, and another one with the same parameters */
    private function find(string $name): array
    {
        if ($this->registry === null) {
            throw new InvalidArgumentException("the DSN jobq://$name names a connection of Doctrine, but the transport factory has no registry;"
                . ' pass the service "doctrine" to it, or use a DSN with a database');
        }
        try {
            $connection = $this->registry->getConnection($name);
        } catch (UnknownConnection $error) {
            throw new InvalidArgumentException("Doctrine has no connection \"$name\"", 0, $error);
        }
        // jobq_wait_any cannot run in a transaction, which a connection without autocommit would open.
        $configuration = clone $connection->getConfiguration();
        $configuration->setAutoCommit(true);
        return [$connection, DriverManager::getConnection($connection->getParams(), $configuration)];
    }

    /** @return Connection[] the same connection twice, because it takes part in no transaction of the application */
    private static function connect(array $parts): array
    {
        $connection = DriverManager::getConnection(array_map('rawurldecode', array_filter([
            'driver' => 'pdo_pgsql', 'host' => $parts['host'], 'dbname' => ltrim($parts['path'], '/'),
            'user' => $parts['user'] ?? '', 'password' => $parts['pass'] ?? '',
        ], 'strlen')) + (isset($parts['port']) ? ['port' => $parts['port']] : []));
        return [$connection, $connection];
    }

    private static function seconds(string $option, mixed $value, float $least): float
    {
        if (!is_numeric($value) || $value < $least) {
            throw new InvalidArgumentException("option \"$option\" must be a number of seconds, at least $least, not " . json_encode($value));
        }
        return (float) $value;
    }
}
