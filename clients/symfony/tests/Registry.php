<?php

declare(strict_types=1);

namespace Jobq\Messenger\Tests;

use Doctrine\Persistence\ConnectionRegistry;
use InvalidArgumentException;

/** A registry with one connection, "default". */
final class Registry implements ConnectionRegistry
{
    public function __construct(private object $connection)
    {
    }

    public function getDefaultConnectionName(): string
    {
        return 'default';
    }

    public function getConnection(?string $name = null): object
    {
        return $name === null || $name === 'default' ? $this->connection : throw new InvalidArgumentException("no connection $name");
    }

    public function getConnections(): array
    {
        return ['default' => $this->connection];
    }

    public function getConnectionNames(): array
    {
        return ['default' => 'default'];
    }
}
